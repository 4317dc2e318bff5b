// Looks at a page in frames of several widths: nothing wider than the screen, no text outside its
// drawing or over another, enough contrast.
'use strict';

// Relative luminance and contrast as WCAG 2 has them.
function luminance([r, g, b]) {
  const part = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part(r / 255) + 0.7152 * part(g / 255) + 0.0722 * part(b / 255);
}
function contrast(a, b) {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
}
function colour(text) {
  const numbers = text.match(/[\d.]+/g);
  return text.startsWith('rgb') && (numbers.length < 4 || Number(numbers[3]) > 0.5)
    ? numbers.slice(0, 3).map(Number) : null;
}
const shown = (element) => element.getClientRects().length > 0;

function inspect(frame, problems) {
  const page = frame.contentDocument;
  const view = frame.contentWindow;
  const width = Number(frame.getAttribute('width'));
  const say = (what) => problems.push(`at ${width} px: ${what}`);
  const style = (element) => view.getComputedStyle(element);
  for (const details of page.querySelectorAll('details')) details.open = true;
  if (page.documentElement.scrollWidth > width) {
    say(`the page is ${page.documentElement.scrollWidth} px wide`);
  }
  const ground = colour(style(page.body).backgroundColor);
  let texts = 0;

  const drawings = [...page.querySelectorAll('svg')].filter(shown);
  if (drawings.length < 3) say(`only ${drawings.length} drawings`);
  for (const drawing of drawings) {
    const box = drawing.getBoundingClientRect();
    if (box.left < -1 || box.right > width + 1) say(`${drawing.id} is beyond the edge`);
    const labels = [...drawing.querySelectorAll('text')].map((text) => {
      texts += 1;
      const place = text.getBoundingClientRect();
      const name = `'${text.textContent}' in '${drawing.querySelector('title').textContent}'`;
      if (place.left < box.left - 1 || place.right > box.right + 1 ||
          place.top < box.top - 1 || place.bottom > box.bottom + 1) {
        say(`${name} is outside`);
      }
      if (place.height < 9) say(`${name} is ${place.height.toFixed(1)} px high`);
      return { text, name, place };
    });
    for (const [index, a] of labels.entries()) {
      for (const b of labels.slice(0, index)) {
        const [p, q] = [a.place, b.place];
        const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        // Boxes are as high as the tallest letters of a font.
        if (wide > 1 && high > 5) say(`${a.name} lies over ${b.name}`);
      }
    }
    // Last, since it scrolls.
    for (const { text, name } of labels) {
      text.scrollIntoView({ block: 'center' });
      const now = text.getBoundingClientRect();
      const under = page.elementsFromPoint(now.left + now.width / 2, now.top + now.height / 2)
        .filter((element) => ['rect', 'path'].includes(element.tagName))
        .map((element) => colour(style(element).fill)).find((found) => found);
      const is = contrast(colour(style(text).fill), under || ground);
      if (is < 4.5) say(`${name} has a contrast of ${is.toFixed(2)}`);
    }
  }

  const written = page.querySelectorAll('h1,h2,p,li,dt,dd,th,td,small,caption,summary');
  for (const element of [...written].filter(shown)) {
    texts += 1;
    const is = contrast(colour(style(element).color), ground);
    if (is < 4.5) say(`'${element.textContent.slice(0, 30)}' has a contrast of ${is.toFixed(2)}`);
  }
  for (const id of [...page.querySelectorAll('[aria-labelledby]')]
    .flatMap((element) => element.getAttribute('aria-labelledby').split(' '))) {
    if (!page.getElementById(id)) say(`there is no ${id}`);
  }
  return texts;
}

window.addEventListener('load', () => {
  const problems = [];
  let texts = 0;
  let dark = false;
  try {
    const frames = [...document.querySelectorAll('iframe')];
    for (const frame of frames) texts += inspect(frame, problems);
    dark = frames[0].contentWindow.matchMedia('(prefers-color-scheme: dark)').matches;
  } catch (error) {
    problems.push(String(error.stack).replaceAll('\n', ' '));
  }
  const lines = problems.map((problem) => `problem: ${problem}`);
  lines.push(`looked at: ${texts} texts, ${dark ? 'dark' : 'light'}`);
  document.getElementById('result').textContent = `\n${lines.join('\n')}\n`;
});

// Looks at a page as it is: nothing wider than the screen, enough contrast, everything named, everything large enough to be
// touched. The value of this file is the list of problems.
(() => {
  const problems = [];
  const luminance = ([r, g, b]) => {
    const part = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const colour = (text) => {
    const numbers = text.match(/[\d.]+/g);
    return numbers && (numbers.length < 4 || Number(numbers[3]) > 0.5) ? numbers.slice(0, 3).map(Number) : null;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = colour(getComputedStyle(at).backgroundColor);
      if (found) return found;
    }
    return [255, 255, 255];
  };
  const shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility === 'visible'
    && getComputedStyle(element).clipPath === 'none';
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) problems.push(`the page is ${document.documentElement.scrollWidth} px wide, the screen ${width}`);
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !shown(element) || element.closest('.skip,noscript,svg')) continue;
    const style = getComputedStyle(element);
    const is = contrast(colour(style.color) || [0, 0, 0], ground(element));
    if (is < 4.5 && !element.disabled) problems.push(`'${element.textContent.trim().slice(0, 30)}' has a contrast of ${is.toFixed(2)}`);
    if (Number.parseFloat(style.fontSize) < 12) problems.push(`'${element.textContent.trim().slice(0, 30)}' is ${style.fontSize} high`);
    const box = element.getBoundingClientRect();
    if (element.tagName !== 'PRE' && element.scrollWidth > element.clientWidth + 1 && element.clientWidth && style.display !== 'inline' && !['PRE', 'TEXTAREA'].includes(element.tagName)) {
      problems.push(`'${element.textContent.trim().slice(0, 30)}' is cut off`);
    }
    if (box.right > width + 1 || box.left < -1) problems.push(`'${element.textContent.trim().slice(0, 30)}' is beyond the edge`);
  }
  for (const field of document.querySelectorAll('input:not([type=hidden]),textarea,select')) {
    if (!shown(field)) continue;
    const named = field.labels && field.labels.length;
    if (!named && !field.getAttribute('aria-label')) problems.push(`the field ${field.name} has no name`);
  }
  for (const to of document.querySelectorAll('button,a.button')) {
    const box = to.getBoundingClientRect();
    if (shown(to) && box.height < 24) problems.push(`'${to.textContent}' is ${box.height} px high`);
    if (!to.textContent.trim() && !to.getAttribute('aria-label')) problems.push('a button has no name');
  }
  for (const id of [...document.querySelectorAll('[aria-describedby],[aria-labelledby]')]
    .flatMap((e) => `${e.getAttribute('aria-describedby') || ''} ${e.getAttribute('aria-labelledby') || ''}`.trim().split(/\s+/))) {
    if (!document.getElementById(id)) problems.push(`there is no ${id}`);
  }
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) problems.push(`'${id}' is the id of several`);
  if (document.querySelectorAll('h1').length !== 1) problems.push('there is not one heading');
  if (document.querySelector('[style],script:not([src])')) problems.push('a style or a script is in the page');
  return problems;
})()

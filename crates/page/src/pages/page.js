// What the pages do beyond forms and links; all of them work without it.
'use strict';

const by = (id) => document.getElementById(id);
const OWN = { 'x-libra-refresh': '1' };

function trouble(text) {
  const place = by('trouble');
  place.textContent = text;
  place.hidden = !text;
}
const GONE = 'libra web does not answer. If it has ended, start it again; jobs run on.';
const SHUT = 'This session has ended. Open the address that libra web prints.';

// Asks, and says what is wrong where nothing comes back; null then. A browser may have kept a connection that was closed meanwhile for being idle, and asks nobody then: so
// twice, as nothing that is asked for here changes anything.
async function ask(address, options) {
  try {
    const answer = await fetch(address, options).catch(() => fetch(address, options));
    if (answer.status === 403) { trouble(SHUT); return null; }
    // What somebody was told of a file is there until they choose another.
    if ([GONE, SHUT].includes(by('trouble').textContent)) trouble('');
    return answer;
  } catch {
    trouble(GONE);
    return null;
  }
}

// ---- what has happened to jobs

// Of this run of libra web.
const SEEN = `news ${by('news') ? by('news').dataset.run : ''}`;
const TITLE = document.title;
let unseen = 0;
let number = Number(by('news') ? by('news').dataset.after : 0);
try {
  number = Math.max(0, Number(sessionStorage.getItem(SEEN) ?? number));
} catch { /* Nothing is remembered then. */ }

function seen() {
  unseen = 0;
  document.title = TITLE;
}
document.addEventListener('visibilitychange', () => { if (!document.hidden) seen(); });

// Says it on the page, in its title, and outside of the browser where that is allowed.
function tell(items) {
  if (!items || !items.length) return;
  const place = by('news');
  if (!place.firstElementChild) {
    const list = document.createElement('ul');
    const gone = document.createElement('button');
    gone.type = 'button';
    gone.textContent = 'Dismiss';
    gone.addEventListener('click', () => { place.replaceChildren(); seen(); });
    place.append(list, gone);
  }
  const list = place.querySelector('ul');
  for (const item of items) {
    if (item.number <= number) continue;
    number = item.number;
    const line = document.createElement('li');
    const to = document.createElement('a');
    to.href = item.key ? `job?id=${encodeURIComponent(item.key)}` : 'jobs';
    to.textContent = item.text;
    line.className = item.bad ? 'bad' : 'good';
    line.append(to);
    list.append(line);
    while (list.children.length > 4) list.firstChild.remove();
    unseen += 1;
    if (document.hidden && 'Notification' in window && Notification.permission === 'granted') {
      const note = new Notification('Libra', { body: item.text, tag: `libra ${item.number}` });
      note.addEventListener('click', () => { window.focus(); location.href = to.href; });
    }
  }
  if (document.hidden) document.title = `(${unseen}) ${TITLE}`;
  try { sessionStorage.setItem(SEEN, number); } catch { /* As above. */ }
}

const allowed = () => 'Notification' in window && Notification.permission === 'granted';

// Pages that do not show the list ask for what is new; unseen ones where somebody wants to be told.
function listen() {
  const again = async () => {
    if (!document.hidden || allowed()) {
      const answer = await ask(`news?after=${number}`, { headers: OWN });
      if (answer && answer.status === 200) tell(await answer.json());
    }
    setTimeout(again, document.hidden ? 20000 : 10000);
  };
  setTimeout(again, 5000);
}

// ---- parts that are asked for again and again

// Puts something in the place of what is there, and the focus where it was.
function replace(place, change) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  change();
  if (focused && focused.id && by(focused.id)) by(focused.id).focus({ preventScroll: true });
}

function refresh(place) {
  const seconds = Number(place.dataset.seconds);
  // A batch system that moves a job to its past may not find it for a moment.
  let ended = 0;
  const again = async () => {
    if (!document.hidden) {
      const answer = await ask(place.dataset.refresh, { headers: OWN });
      if (answer && answer.ok) {
        const text = await answer.text();
        if (text !== place.last) {
          // Made and escaped by the same server as the page.
          replace(place, () => { place.innerHTML = text; });
          place.last = text;
        }
      }
      ended = place.querySelector('[data-state=ended]') ? ended + 1 : 0;
      if (ended > 5) return;
    }
    setTimeout(again, seconds * 1000);
  };
  setTimeout(again, seconds * 1000);
}
for (const place of document.querySelectorAll('[data-refresh]')) refresh(place);

// ---- the list of jobs

// The page has rows; what changes on them comes alone, by the version that is here.
function list(jobs) {
  const rows = by('rows');
  const row = (key) => [...rows.children].find((one) => one.dataset.key === key);

  // Made and escaped by the same server as the page.
  function made(html) {
    const place = document.createElement('tbody');
    place.innerHTML = html;
    return place.firstElementChild;
  }
  function bars(one, [time, work, left, label]) {
    const picture = one.querySelector('svg');
    picture.setAttribute('aria-label', label);
    picture.querySelector('.time').setAttribute('width', time);
    if (work !== null) picture.querySelector('.work').setAttribute('width', work);
    const [first, second] = one.querySelectorAll('.under span');
    first.textContent = left;
    second.textContent = label;
  }
  function change(what) {
    for (const name of ['above', 'below']) if (name in what) replace(by(name), () => { by(name).innerHTML = what[name]; });
    replace(rows, () => {
      for (const [key, html] of Object.entries(what.rows ?? {})) {
        const [old, fresh] = [row(key), made(html)];
        const box = fresh.querySelector('[type=checkbox]');
        if (old && box) box.checked = old.querySelector('[type=checkbox]:checked') !== null;
        if (old) old.replaceWith(fresh); else rows.append(fresh);
      }
      if (what.order) {
        const known = new Map([...rows.children].map((one) => [one.dataset.key, one]));
        rows.replaceChildren(...what.order.map((key) => known.get(key)).filter(Boolean));
      }
    });
    for (const [key, bar] of Object.entries(what.bars ?? {})) if (row(key)) bars(row(key), bar);
    jobs.querySelector('table').hidden = !rows.children.length;
    jobs.dataset.version = what.version;
    choice();
  }
  let timer = 0;
  async function again() {
    clearTimeout(timer);
    if (!document.hidden || allowed()) {
      const { version, list: to } = jobs.dataset;
      const answer = await ask(`${to}${to.includes('?') ? '&' : '?'}version=${version}&news=${number}`, { headers: OWN });
      if (answer && answer.status === 200) {
        const what = await answer.json();
        // Somebody has typed another search meanwhile.
        if (to === jobs.dataset.list) change(what);
        tell(what.news);
      }
    }
    timer = setTimeout(again, document.hidden ? 20000 : Number(jobs.dataset.seconds) * 1000);
  }
  timer = setTimeout(again, Number(jobs.dataset.seconds) * 1000);

  // How many boxes are ticked.
  function choice() {
    const button = by('cancel-chosen');
    if (!button) return;
    const count = rows.querySelectorAll(':checked').length;
    button.disabled = !count;
    button.textContent = count ? `Cancel chosen jobs (${count})…` : 'Cancel chosen jobs…';
  }
  rows.addEventListener('change', choice);
  choice();

  // Found while it is typed; the address says it, so it can be kept and shared.
  const find = by('find');
  let typing = 0;
  function found() {
    clearTimeout(typing);
    const words = new URLSearchParams([...new FormData(find)].filter(([, value]) => value.trim()));
    const to = words.size ? `?${words}` : '';
    history.replaceState(null, '', `jobs${to}`);
    jobs.dataset.list = `jobs-part${to}`;
    for (const field of jobs.querySelectorAll(':scope > [type=hidden]:not([name=word])')) field.remove();
    for (const [name, value] of words) {
      const field = document.createElement('input');
      [field.type, field.name, field.value] = ['hidden', name, value];
      jobs.prepend(field);
    }
    again();
  }
  find.addEventListener('input', (event) => {
    clearTimeout(typing);
    typing = setTimeout(found, event.target.id === 'q' ? 250 : 0);
  });
  find.addEventListener('submit', (event) => { event.preventDefault(); found(); });
  find.querySelector('button').hidden = true;

  // Asked for by somebody, or browsers do not ask.
  const tells = by('tells');
  if ('Notification' in window && Notification.permission === 'default') {
    tells.hidden = false;
    tells.addEventListener('click', async () => { tells.hidden = await Notification.requestPermission() !== 'default'; });
  }
}
if (by('jobs')) list(by('jobs'));
else if (by('news')) listen();

// ---- the output of a job

// Whole lines are added; the last one, which has no end yet, is put in the place of what it was.
function follow(output) {
  const [nothing, lines, last] = [by('nothing'), by('lines'), by('last')];
  // As much as a browser shows without getting slow.
  const most = 2000000;
  let ended = 0;
  let shown = '';
  const again = async () => {
    let wait = 1000;
    if (!document.hidden) {
      const { id, next, style } = output.dataset;
      const answer = await ask(`output?id=${encodeURIComponent(id)}&from=${next}&style=${encodeURIComponent(style)}`, { headers: OWN });
      const part = answer && answer.ok ? await answer.json() : null;
      if (part && part.problem) { trouble(part.problem); return; }
      if (part) {
        const below = output.scrollTop + output.clientHeight >= output.scrollHeight - 30;
        if (part.again) lines.replaceChildren();
        if (part.html) {
          const more = document.createElement('span');
          // Made and escaped by the same server as the page.
          more.innerHTML = part.html;
          lines.append(more);
          let { length } = lines.textContent;
          while (length > most && lines.children.length > 1) {
            const old = lines.firstChild;
            length -= old.textContent.length;
            old.remove();
          }
          wait = 300;
        }
        if (part.last !== shown) last.innerHTML = part.last;
        shown = part.last;
        if (part.html || part.last) {
          output.hidden = false;
          nothing.hidden = true;
        }
        [output.dataset.next, output.dataset.style] = [part.next, part.style];
        if (below) output.scrollTop = output.scrollHeight;
        // The last lines may come late, over a network's file system.
        ended = part.more ? 0 : ended + 1;
        if (ended > 5) {
          if (nothing.textContent === 'Nothing yet.') nothing.textContent = 'It has printed nothing.';
          return;
        }
      }
    }
    setTimeout(again, wait);
  };
  output.scrollTop = output.scrollHeight;
  setTimeout(again, 300);
}
if (by('output')) follow(by('output'));

// ---- the form

const UNITS = { w: 604800, d: 86400, h: 3600, m: 60, min: 60, s: 1, ms: 0.001 };

// Seconds of 90, 1h30m or 00:01:30; NaN for anything else.
function seconds(text) {
  const plain = text.trim();
  if (/^\d+(\.\d+)?$/.test(plain)) return Number(plain);
  const clock = plain.match(/^(\d+):([0-5]?\d):([0-5]?\d(?:\.\d+)?)$/);
  if (clock) return Number(clock[1]) * 3600 + Number(clock[2]) * 60 + Number(clock[3]);
  if (!/^(\d+(\.\d+)?\s*(w|d|h|min|ms|m|s)\s*)+$/.test(plain)) return NaN;
  let sum = 0;
  for (const [, number, unit] of plain.matchAll(/(\d+(?:\.\d+)?)\s*(w|d|h|min|ms|m|s)/g)) {
    sum += Number(number) * UNITS[unit];
  }
  return sum;
}

// A duration as the server shows all of them (libra_units::duration::show): it is read as it is shown.
function shown(value) {
  if (value < 99.95) return `${Number(value.toFixed(1))} s`;
  const whole = Math.round(value);
  const two = (number) => String(Math.floor(number)).padStart(2, '0');
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h${two((whole % 3600) / 60)}m`;
  return `${Math.floor(whole / 86400)}d${two((whole % 86400) / 3600)}h`;
}

// The same, of a round number of seconds.
function typed(value) {
  const step = value < 60 ? 1 : value < 600 ? 5 : value < 3600 ? 60 : value < 36000 ? 300 : value < 172800 ? 1800 : 14400;
  return shown(Math.max(1, Math.round(value / step) * step));
}

// The text of a file; null for what is none, which would be altered silently.
async function text(file) {
  try {
    const bytes = await file.arrayBuffer();
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

function form(page) {
  const field = (name) => page.elements.namedItem(name);
  const verdict = by('verdict');
  const slider = by('slider');
  let timer = 0;
  let number = 0;
  let range = null;

  // Without anything typed there is nothing to ask; the script of a batch system may have it all. A price needs no budget.
  const needs = () => (field('class')?.selectedOptions[0]?.dataset.needs ?? 'estimate deadline budget').split(' ').filter(Boolean);
  const complete = () => needs().every((name) => name === 'budget' || field(name).value.trim())
    || (page.dataset.batch === 'yes' && field('script').value.trim());

  // What is wrong stands at its field; what is not wrong any more does not.
  function notes() {
    const wrong = new Map([...verdict.querySelectorAll('[data-field]')].map((one) => [one.dataset.field, one.textContent.replace(/^[^:]*: /, '')]));
    for (const place of page.querySelectorAll('.error')) {
      const name = place.id.replace(/-error$/, '');
      place.textContent = wrong.get(name) ?? '';
      place.hidden = !wrong.has(name);
      if (wrong.has(name)) field(name).setAttribute('aria-invalid', 'true');
      else field(name).removeAttribute('aria-invalid');
    }
    brief();
  }
  // On a narrow screen the verdict is below the fields: a line of it stays in view.
  function brief() {
    const line = by('brief');
    const [heading, cost] = [verdict.querySelector('h2'), verdict.querySelector('.price')];
    line.hidden = !heading;
    if (heading) line.textContent = heading.firstChild.textContent.trim() + (cost ? `, ${cost.textContent}` : '');
    line.className = verdict.querySelector('.verdict.good') ? 'good' : 'bad';
  }

  async function price() {
    number += 1;
    const mine = number;
    if (!complete()) {
      // What stands there is about something else, and so are its buttons.
      verdict.classList.remove('asking');
      verdict.replaceChildren();
      notes();
      return;
    }
    verdict.classList.add('asking');
    const data = new FormData(page);
    data.delete('file');
    const answer = await ask('quote', { method: 'POST', body: new URLSearchParams(data) });
    if (mine !== number) return;
    verdict.classList.remove('asking');
    if (answer && answer.ok) {
      const text = await answer.text();
      if (mine === number) verdict.innerHTML = text;
    } else {
      verdict.replaceChildren();
    }
    if (mine === number) notes();
  }
  function later(wait = 350) {
    clearTimeout(timer);
    // An answer that is still under way is one to an older question.
    number += 1;
    if (page.dataset.live === 'no') {
      verdict.replaceChildren();
      return;
    }
    if (complete()) verdict.classList.add('asking');
    timer = setTimeout(price, wait);
  }

  // The slider goes from an estimate's own time to twenty times that, in even steps of their logarithm.
  function place() {
    const estimate = seconds(field('estimate').value);
    slider.parentElement.hidden = !(estimate > 0);
    if (!(estimate > 0)) return;
    range = [estimate * 1.05, estimate * 20];
    by('slider-least').textContent = typed(range[0]);
    by('slider-most').textContent = typed(range[1]);
    const deadline = seconds(field('deadline').value);
    if (deadline > 0) {
      slider.value = 200 * Math.log(deadline / range[0]) / Math.log(range[1] / range[0]);
      slider.setAttribute('aria-valuetext', typed(deadline));
    }
  }
  slider.addEventListener('input', () => {
    const deadline = range[0] * (range[1] / range[0]) ** (slider.value / 200);
    // Never below what it shows as its end.
    field('deadline').value = typed(Math.max(deadline, range[0]));
    slider.setAttribute('aria-valuetext', field('deadline').value);
    later(150);
  });
  // What a class does not need, no browser asks for; a script may say what the form does not.
  function demand() {
    for (const name of ['estimate', 'deadline', 'budget']) field(name).required = page.dataset.batch !== 'yes' && needs().includes(name);
  }
  field('class')?.addEventListener('change', demand);
  page.addEventListener('input', (event) => {
    // What a template is called costs nothing.
    if (event.target === slider || event.target.name === 'template-name') return;
    if (['estimate', 'deadline'].includes(event.target.name)) place();
    if (event.target.type !== 'file') later(event.target.name === 'script' ? 800 : 350);
  });

  field('file').addEventListener('change', async () => {
    const [file] = field('file').files;
    if (!file) return;
    let script = null;
    if (file.size > 1 << 20) {
      trouble(`${file.name} is larger than 1 MiB; put data and programs into files of their own.`);
    } else if ((script = await text(file)) === null) {
      trouble(`${file.name} is not text in UTF-8; save it as that, and choose it again.`);
    } else {
      trouble('');
      field('script').value = script;
      later();
      if (!field('name').value) field('name').value = file.name.replace(/[^A-Za-z0-9._+-]/g, '-').replace(/^[^A-Za-z0-9]+/, '').slice(0, 60);
    }
    // It is in the form now.
    field('file').value = '';
  });

  // Files of this machine are listed beside what is typed, which stays.
  const [choose, chosen] = [by('choose'), by('chosen')];
  async function list(to) {
    const answer = await ask(to.replace(/^files/, 'files-part'), { headers: OWN });
    if (!answer) return;
    // Made and escaped by the same server as the page.
    chosen.innerHTML = await answer.text();
    chosen.hidden = false;
    choose.setAttribute('aria-expanded', 'true');
    chosen.querySelector('a')?.focus();
  }
  function close() {
    chosen.hidden = true;
    chosen.replaceChildren();
    choose.setAttribute('aria-expanded', 'false');
    choose.focus();
  }
  choose.setAttribute('aria-expanded', 'false');
  choose.setAttribute('role', 'button');
  choose.addEventListener('click', (event) => {
    event.preventDefault();
    if (chosen.hidden) list('files'); else close();
  });
  choose.addEventListener('keydown', (event) => {
    if (event.key === ' ') { event.preventDefault(); choose.click(); }
  });
  chosen.addEventListener('keydown', (event) => { if (event.key === 'Escape') close(); });
  chosen.addEventListener('click', async (event) => {
    const link = event.target.closest('a');
    if (!link) return;
    event.preventDefault();
    if ('in' in link.dataset) { list(link.getAttribute('href')); return; }
    if ('file' in link.dataset) {
      const answer = await ask(link.getAttribute('href').replace(/^submit/, 'script-file'), { headers: OWN });
      const found = answer ? await answer.json() : { problem: GONE };
      if (found.problem) { trouble(found.problem); return; }
      trouble('');
      field('script').value = found.script;
      field('directory').value = found.directory;
      if (!field('name').value) field('name').value = found.name;
    } else {
      field('directory').value = link.dataset.directory;
    }
    close();
    later(0);
  });

  // What a price needs is typed for whoever asks for it.
  verdict.addEventListener('click', (event) => {
    if (event.target.name !== 'fill') return;
    event.preventDefault();
    for (const pair of event.target.value.split(' ')) {
      const [name, value] = pair.split('=');
      field(name).value = value;
      field(name).focus();
    }
    later(0);
  });

  page.addEventListener('submit', (event) => {
    // A second click does nothing; the value of the first one is still sent.
    if (page.sent) { event.preventDefault(); return; }
    page.sent = true;
    setTimeout(() => { page.sent = false; }, 8000);
  });
  window.addEventListener('pageshow', () => { page.sent = false; });
  demand();
  place();
  brief();
  if (!verdict.firstElementChild && complete()) later(0);
}
if (by('submit')) {
  // Asked by itself.
  if (by('ask')) by('ask').hidden = true;
  form(by('submit'));
}

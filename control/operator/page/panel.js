// What all panels have: a poll, the last answer, since when there is none, and a place in the summary.

import { send } from './api.js';
import { byID, h } from './dom.js';
import { clock } from './format.js';

// words are what a mood is called, so that no colour has to be seen.
const words = { good: 'in order', warn: 'look at it', bad: 'act', info: 'waiting', plain: 'unknown' };

const panels = [];
let locked = () => {};

// whenLocked sets what is done once the session is over.
export const whenLocked = (then) => { locked = then; };

// panel polls a path every so many milliseconds. draw returns what its body shows for an answer, and
// judge what the summary says of it: {value, mood, word}.
export function panel({ id, name, path, every, draw, judge, keep = () => {} }) {
  const p = { id, name, answer: null, at: 0, failing: null, timer: null, polls: 0 };
  p.path = path;
  p.redraw = () => {
    const unavailable = p.failing && h('p', { class: `unavailable ${p.answer ? 'stale' : ''}` },
      `${p.failing.message}, since ${clock(p.failing.since)}.`, p.answer && ` What is below is from ${clock(p.at)}.`);
    put(byID(id)?.querySelector('.body'), [unavailable, ...(p.answer ? draw(p.answer, p) : [!p.failing && h('p', { class: 'empty' }, 'Loading…')])]);
    summarise();
  };
  p.state = () => {
    if (p.failing) return { value: 'no answer', mood: 'bad', word: `since ${clock(p.failing.since)}` };
    return p.answer ? judge(p.answer, p) : { value: '…', mood: 'plain' };
  };
  p.poll = async () => {
    clearTimeout(p.timer);
    const poll = ++p.polls;
    const answer = await send('GET', p.path);
    if (poll !== p.polls) return; // a newer one was sent meanwhile
    if (answer.status === 401) {
      locked(answer.message);
      return;
    }
    if (answer.ok || (p.path === '/readyz' && answer.status === 503)) {
      Object.assign(p, { answer: answer.data, at: Date.now(), failing: null });
      keep(answer.data, p.at);
    } else {
      p.failing = { since: p.failing?.since ?? Date.now(), message: answer.message ?? `control answers ${answer.status}` };
    }
    p.redraw();
    p.timer = setTimeout(p.poll, every);
  };
  p.stop = () => {
    clearTimeout(p.timer);
    p.polls++;
  };
  panels.push(p);
  return p;
}

// choices has the buttons of a panel that carry data-NAME choose its path.
export function choices(p, name, path) {
  const buttons = [...document.querySelectorAll(`#${p.id} [data-${name}]`)];
  for (const button of buttons) {
    button.addEventListener('click', () => {
      for (const other of buttons) other.setAttribute('aria-pressed', String(other === button));
      Object.assign(p, { path: path(button.dataset[name]), answer: null });
      p.redraw();
      p.poll();
    });
  }
}

// put replaces what an element shows. What is scrolled, unfolded or focused stays so.
function put(element, children) {
  if (!element) return;
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const marked = focused?.getAttribute('data-key');
  const scrolled = element.querySelector('.scroll');
  const place = scrolled && [scrolled.scrollLeft, scrolled.scrollTop];
  const unfolded = element.querySelector('details')?.open;
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  const scroll = element.querySelector('.scroll');
  if (place && scroll) [scroll.scrollLeft, scroll.scrollTop] = place;
  const details = element.querySelector('details');
  if (details && unfolded) details.open = true;
  const again = marked ? element.querySelector(`[data-key="${CSS.escape(marked)}"]`) : focused?.classList.contains('scroll') ? scroll : focused?.tagName === 'SUMMARY' && element.querySelector('summary');
  if (again) again.focus({ preventScroll: true });
}

export const startAll = () => panels.forEach((p) => { p.redraw(); p.poll(); });
export const stopAll = () => panels.forEach((p) => p.stop());
export const redrawAll = () => panels.forEach((p) => p.redraw());

// summarise writes the summary, and the title of the tab. It replaces texts, not links, which may
// have the focus.
function summarise() {
  const list = byID('summary');
  let acts = 0;
  for (const p of panels) {
    const { value, mood, word } = p.state();
    if (mood === 'bad') acts++;
    let link = list.querySelector(`[data-panel="${p.id}"]`);
    if (!link) {
      link = h('a', { href: `#${p.id}`, 'data-panel': p.id }, h('span', { class: 'name' }, p.name), h('span', { class: 'value' }), h('span', { class: 'word' }));
      list.append(h('li', null, link));
    }
    link.className = mood;
    link.querySelector('.value').textContent = value;
    link.querySelector('.word').textContent = word ?? words[mood];
  }
  document.title = acts > 0 ? `(${acts}) Muniment console` : 'Muniment console';
}

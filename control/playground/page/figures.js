// Two small charts: round trips, and refusals by rule. Each also says its numbers in words.

import { h, put, s } from './dom.js';

const sorted = (list) => list.toSorted((a, b) => a - b);

export const percentile = (list, p) => sorted(list)[Math.max(0, Math.ceil((p / 100) * list.length) - 1)];

const ms = (x) => (x === undefined ? '–' : x < 10 ? x.toFixed(1) : String(Math.round(x)));

const width = 340;

function trips(list) {
  const shown = list.slice(-40);
  const top = Math.max(1, ...shown);
  const high = 84;
  const y = (value) => 4 + high - (Math.min(value, top) / top) * high;
  const step = (width - 34) / 40;
  const rule = (p) => s('g', null, s('line', { class: 'rule', x1: 0, x2: width - 30, y1: y(percentile(list, p)), y2: y(percentile(list, p)) }), s('text', { class: 'axis', x: width - 27, y: y(percentile(list, p)) + 4 }, `p${p}`));
  return s('svg', { viewBox: `0 0 ${width} ${high + 8}`, role: 'img', 'aria-label': `The last ${shown.length} round trips; p50 is ${ms(percentile(list, 50))} ms, p99 is ${ms(percentile(list, 99))} ms` },
    shown.map((value, i) => s('rect', { class: 'bar', x: i * step, y: y(value), width: Math.max(2, step - 2), height: Math.max(1.5, 4 + high - y(value)), rx: 1.5 })), rule(50), rule(99));
}

function refusals(counts) {
  const top = counts[0][1];
  const line = 34;
  return s('svg', { viewBox: `0 0 ${width} ${counts.length * line}`, role: 'img', 'aria-label': counts.map(([code, n]) => `${code}: ${n}`).join(', ') },
    counts.map(([code, n], i) => s('g', null,
      s('text', { class: 'axis', x: 0, y: i * line + 11 }, code), s('text', { class: 'axis', x: width, y: i * line + 11, 'text-anchor': 'end' }, String(n)),
      s('rect', { class: 'bar refused', x: 0, y: i * line + 17, width: Math.max(4, (n / top) * width), height: 8, rx: 4 }))));
}

export function drawFigures({ receipts, trips: list, refusals: codes }) {
  const tally = new Map();
  for (const code of codes) tally.set(code, (tally.get(code) ?? 0) + 1);
  const counts = [...tally].sort((a, b) => b[1] - a[1]).slice(0, 6);
  const number = (value, name) => h('div', null, h('b', null, value), name);
  put('figures',
    h('figure', null, h('figcaption', null, 'Round trip of a delivery'),
      h('div', { class: 'big' }, number(ms(percentile(list, 50)), 'p50, ms'), number(ms(percentile(list, 99)), 'p99, ms'), number(String(receipts.length), 'receipts')),
      list.length > 0 ? trips(list) : h('p', { class: 'status' }, 'Measured in this browser, once you deliver something.')),
    h('figure', null, h('figcaption', null, 'Refusals by rule'),
      counts.length > 0 ? refusals(counts) : h('p', { class: 'status' }, 'The gate has refused nothing yet. Pick an example that fails.')));
}

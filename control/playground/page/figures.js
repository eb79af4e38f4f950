// Two small charts: round trips, and refusals by rule. Each also says its numbers in words.

import { bars, columns } from './charts.js';
import { h, put } from './dom.js';

const sorted = (list) => list.toSorted((a, b) => a - b);

export const percentile = (list, p) => sorted(list)[Math.max(0, Math.ceil((p / 100) * list.length) - 1)];

const ms = (x) => (x === undefined ? '–' : x < 10 ? x.toFixed(1) : String(Math.round(x)));

const width = 340;

function trips(list) {
  const shown = list.slice(-40);
  return columns(shown, {
    width, most: 40, label: `The last ${shown.length} round trips; p50 is ${ms(percentile(list, 50))} ms, p99 is ${ms(percentile(list, 99))} ms`,
    rules: [50, 99].map((p) => [percentile(list, p), `p${p}`]),
  });
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
      counts.length > 0 ? bars(counts.map(([code, n]) => [code, n, String(n), 'refused']), { width }) : h('p', { class: 'status' }, 'The gate has refused nothing yet. Pick an example that fails.')));
}

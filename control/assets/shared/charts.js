// Charts. Each says its numbers in words, too. width is that of the viewBox: where
// the chart is shown at that width, its text has the size of the style sheet.

import { s } from './dom.js';

// bars is a list of [name, value, text, mood]: one bar a line, as long as its value. mark draws a
// line at a value, such as a bound; to is the value of a full bar.
export function bars(list, { width, label, to, mark }) {
  const top = Math.max(1, to ?? 0, ...list.map(([, value]) => value));
  const line = 34;
  const x = (value) => (Math.min(value, top) / top) * width;
  return s('svg', { viewBox: `0 0 ${width} ${list.length * line}`, role: 'img', 'aria-label': label ?? list.map(([name, value, text]) => `${name}: ${text ?? value}`).join(', ') },
    list.map(([name, value, text, mood = ''], i) => s('g', null,
      s('text', { class: 'axis', x: 0, y: i * line + 11 }, name), s('text', { class: 'axis', x: width, y: i * line + 11, 'text-anchor': 'end' }, text ?? String(value)),
      mark !== undefined && s('rect', { class: 'track', x: 0, y: i * line + 17, width, height: 8, rx: 4 }),
      s('rect', { class: `bar ${mood}`, x: 0, y: i * line + 17, width: value === 0 && mark !== undefined ? 0 : Math.max(4, x(value)), height: 8, rx: 4 }),
      mark !== undefined && s('line', { class: 'bound', x1: x(mark), x2: x(mark), y1: i * line + 14, y2: i * line + 28 }))));
}

// columns is a list of values as columns, at most so many, with rules at [value, text].
export function columns(list, { width, most, label, rules = [] }) {
  const top = Math.max(1, ...list);
  const high = 84;
  const y = (value) => 4 + high - (Math.min(value, top) / top) * high;
  const step = (width - 34) / most;
  return s('svg', { viewBox: `0 0 ${width} ${high + 8}`, role: 'img', 'aria-label': label },
    list.map((value, i) => s('rect', { class: 'bar', x: i * step, y: y(value), width: Math.max(2, step - 2), height: Math.max(1.5, 4 + high - y(value)), rx: 1.5 })),
    rules.map(([value, text]) => s('g', null, s('line', { class: 'rule', x1: 0, x2: width - 30, y1: y(value), y2: y(value) }), s('text', { class: 'axis', x: width - 27, y: y(value) + 4 }, text))));
}

// round is the next number from n up that a scale may end with: 1, 2, 4 or 10 of a power of ten.
const round = (n) => {
  const power = 10 ** Math.floor(Math.log10(n));
  return power * [1, 2, 4, 10].find((step) => step * power >= n);
};

// area is a series of [time, value] between two times, in milliseconds, with a scale. What nobody saw is a gap: a
// value is drawn on for at most hold milliseconds. name is what a time is called.
export function area(series, { width, from, to, hold, label, name, mood = '' }) {
  const top = round(Math.max(1, ...series.map(([, value]) => value)));
  const high = 84;
  const side = 46; // for the numbers of the scale
  const x = (at) => side + ((at - from) / (to - from)) * (width - side - 4);
  const y = (value) => 14 + high - (value / top) * high;
  const runs = [];
  for (const point of series) {
    const last = runs.at(-1)?.at(-1);
    if (last && point[0] - last[0] <= hold) runs.at(-1).push(point);
    else runs.push([point]);
  }
  const end = (run) => Math.min(to, run.at(-1)[0] + hold);
  const line = (run) => `${run.map(([at, value], i) => `${i ? 'L' : 'M'}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join('')}H${x(end(run)).toFixed(1)}`;
  const steps = top > 1 ? [0, top / 2, top] : [0, top];
  return s('svg', { viewBox: `0 0 ${width} ${high + 34}`, role: 'img', 'aria-label': label },
    steps.map((value) => s('g', null, s('line', { class: value === 0 ? 'ground' : 'rule', x1: side, x2: width, y1: y(value), y2: y(value) }),
      s('text', { class: 'axis', x: side - 6, y: y(value) + 4, 'text-anchor': 'end' }, value.toLocaleString('en', { notation: 'compact' })))),
    runs.map((run) => s('path', { class: `under ${mood}`, d: `${line(run)}V${14 + high}H${x(run[0][0]).toFixed(1)}Z` })),
    runs.map((run) => s('path', { class: `edge ${mood}`, d: line(run) })),
    series.length > 0 && s('circle', { class: `now ${mood}`, cx: Math.min(x(series.at(-1)[0]), width - 4), cy: y(series.at(-1)[1]), r: 3.5 }),
    s('text', { class: 'axis', x: side, y: high + 30 }, name(from)), width > 320 && s('text', { class: 'axis', x: (side + width) / 2, y: high + 30, 'text-anchor': 'middle' }, name((from + to) / 2)),
    s('text', { class: 'axis', x: width, y: high + 30, 'text-anchor': 'end' }, name(to)));
}

// What this page has seen of a number over the last minutes.

import { area } from './charts.js';
import { h } from './dom.js';
import { clock } from './format.js';

// window is how long a number is kept, in milliseconds.
export const window15 = 15 * 60_000;

// gap is how long a value is drawn on without another one.
const gap = 20_000;

export class Seen {
  series = [];

  add(value, at) {
    this.series.push([at, value]);
    while (this.series[0][0] < at - window15) this.series.shift();
  }

  // change is how much it has grown over the last minutes, per second; undefined while that is unknown.
  change(now, over = 120_000) {
    const recent = this.series.filter(([at]) => at >= now - over);
    const [first, last] = [recent[0], recent.at(-1)];
    return recent.length > 1 && last[0] - first[0] >= 10_000 ? (last[1] - first[1]) / ((last[0] - first[0]) / 1000) : undefined;
  }

  get last() { return this.series.at(-1)?.[1] ?? 0; }

  // chart is the picture; what is what the number counts.
  chart(width, what, mood) {
    const to = this.series.at(-1)?.[0] ?? Date.now();
    const values = this.series.map(([, value]) => value);
    return h('figure', null, h('figcaption', null, what),
      area(this.series, { width, from: Math.min(this.series[0]?.[0] ?? to, to - 60_000), to: to + 1, hold: gap, name: clock, mood,
        label: `${what}: now ${this.last}, lowest ${Math.min(...values)}, highest ${Math.max(...values)} since ${clock(this.series[0]?.[0] ?? to)}` }));
  }
}

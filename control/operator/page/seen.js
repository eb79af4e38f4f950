// What is known of a number over the last day.

import { area } from './charts.js';
import { h } from './dom.js';
import { clock } from './format.js';

// kept is how long a number is kept, in milliseconds: what the process has noted once a minute, and what this page has seen.
const kept = 24 * 60 * 60_000;

// gap is how long a value is drawn on without another one: between two notes of the process.
const gap = 100_000;

export class Seen {
  series = [];
  opened; // when this page has seen the first value itself

  add(value, at) {
    this.opened ??= at;
    this.series.push([at, value]);
    // Of what is older than a quarter of an hour one value a minute is enough.
    const old = this.series.findIndex(([t]) => t >= at - 15 * 60_000) - 1;
    if (old > 0 && this.series[old][0] - this.series[old - 1][0] < 50_000) this.series.splice(old, 1);
    while (this.series[0][0] < at - kept) this.series.shift();
  }

  // before puts what was noted before this page was opened in front: [time, value] each, the oldest first.
  before(points) {
    const first = this.series[0]?.[0] ?? Infinity;
    this.series.unshift(...points.filter(([at]) => at < first));
  }

  // change is how much it has grown over the last minutes, per second; undefined while that is unknown.
  change(now, over = 120_000) {
    const recent = this.series.filter(([at]) => at >= Math.max(now - over, this.opened)); // notes of the process are too far apart
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

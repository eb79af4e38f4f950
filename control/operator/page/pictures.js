// The panels that only show something.

import { send } from './api.js';
import { bars } from './charts.js';
import { byID, h, table, tag } from './dom.js';
import { clock, duration, number, plural } from './format.js';
import { choices, panel } from './panel.js';
import { Seen } from './seen.js';

// remember puts what the process has noted before the page was opened into what the page has seen, once.
async function remember(seen, of) {
  const answer = await send('GET', '/console/api/history');
  if (answer.ok) seen.before(answer.data.points.filter((p) => of(p) >= 0).map((p) => [p.at, of(p)]));
}

// inner is how wide a chart in a panel is.
const inner = (id) => Math.max(240, byID(id).querySelector('.body').clientWidth - 34);

const figures = (...children) => h('div', { class: 'figures' }, children);

// engines are what a process serves without, for a while.
const engines = new Set(['log', 'clickhouse']);

export function readiness() {
  return panel({
    id: 'ready', name: 'Process', path: '/readyz', every: 5000,
    judge: ({ ready, notReady, notes }) => {
      if (!ready) return { value: 'not ready', mood: 'bad', word: notReady.map((part) => part.name).join(', ') };
      const away = (notes ?? []).filter(({ name, note }) => engines.has(name) && note !== 'ready');
      return away.length > 0 ? { value: 'ready', mood: 'warn', word: `without ${away.map((n) => n.name).join(', ')}` } : { value: 'ready', mood: 'good' };
    },
    draw: ({ ready, notReady, notes }) => [
      !ready && h('p', { class: 'unavailable' }, 'It is not ready, and load balancers send it nothing.'),
      h('dl', null, (notReady ?? []).map(({ name, reason }) => [h('dt', null, tag(name, 'bad')), h('dd', null, reason)]),
        (notes ?? []).map(({ name, note }) => [h('dt', null, name), h('dd', null, note)])),
    ],
  });
}

// moodOf is how well a node is.
function moodOf(node, leaseMs) {
  if (node.expelled) return ['plain', 'expelled'];
  if (!node.live) return ['bad', 'lease over'];
  if (node.ageMs > leaseMs / 2) return ['warn', 'late'];
  return ['good', node.leaving ? 'leaving' : 'live'];
}

// mostBars is how many nodes have a bar; all are in the table.
const mostBars = 12;

export function nodes() {
  const draw = ({ nodes: list, leaseMs, total, registered }) => {
    if (list.length === 0) {
      return [registered ? h('p', { class: 'unavailable' }, 'Nodes have joined, and none has polled for a long time: all deliveries are refused.')
        : h('p', { class: 'empty' }, 'No node has joined yet.')];
    }
    const rows = list.map((n) => {
      const [mood, word] = moodOf(n, leaseMs);
      return [h('span', { class: 'mono' }, n.name || n.nodeId), tag(word, mood), duration(n.ageMs), number(n.epoch), number(n.appliedRevision), number(n.spooled)];
    });
    return [
      figures(h('figure', null, h('figcaption', null, `Time since the last poll; the mark is the lease bound, ${duration(leaseMs)}`),
        bars(list.slice(0, mostBars).map((n) => {
          const [mood, word] = moodOf(n, leaseMs);
          return [n.name || n.nodeId, n.ageMs, `${duration(n.ageMs)}, ${word}`, mood];
        }), { width: inner('nodes'), to: leaseMs * 1.15, mark: leaseMs }))),
      table(total > list.length ? `The first ${number(list.length)} of ${plural(total, 'node')}` : plural(total, 'node'),
        [{ name: 'Node' }, { name: 'State' }, { name: 'Last poll', number: true }, { name: 'Start', number: true }, { name: 'Revision', number: true }, { name: 'In its spool', number: true }], rows),
    ];
  };
  const judge = ({ nodes: list, leaseMs, registered }) => {
    const members = list.filter((n) => !n.expelled);
    const over = members.filter((n) => !n.live).length;
    const live = members.length - over;
    const value = `${number(live)} of ${number(members.length)} live`;
    if (members.length === 0) return registered ? { value: 'none live', mood: 'bad' } : { value: 'none', mood: 'plain', word: 'none joined' };
    if (live === 0) return { value, mood: 'bad' };
    if (over > 0) return { value, mood: 'warn', word: `${number(over)} silent` };
    return { value, mood: members.some((n) => n.ageMs > leaseMs / 2) ? 'warn' : 'good' };
  };
  return { draw, judge, id: 'nodes', name: 'Nodes', path: '/console/api/nodes', every: 5000 };
}

// A lag that does not fall is worth a look from many on, and an act from tooMany on.
const many = 1000;
const tooMany = 100_000;

export function lag() {
  const seen = new Seen();
  const judge = ({ behind }, p) => {
    const change = seen.change(p.at);
    if (behind >= tooMany && !(change < 0)) return { value: number(behind), mood: 'bad', word: 'not falling' };
    if (behind >= many) return change < 0 ? { value: number(behind), mood: 'warn', word: 'falling' } : { value: number(behind), mood: 'warn', word: 'not falling' };
    return { value: number(behind), mood: 'good', word: behind === 0 ? 'caught up' : 'records behind' };
  };
  return panel({
    id: 'lag', name: 'Lag', path: '/console/api/lag', every: 5000, judge, keep: ({ behind }, at) => {
      if (seen.series.length === 0) remember(seen, (p) => p.behind);
      seen.add(behind, at);
    },
    draw: ({ behind, partitions }, p) => {
      const change = seen.change(p.at);
      const pace = behind === 0 ? 'The warehouse has everything.'
        : change === undefined ? 'How fast that changes is known in a few seconds.'
          : change < 0 ? `It falls by ${number(Math.round(-change))} a second: about ${duration((behind / -change) * 1000)} more.` : change > 0 ? `It grows by ${number(Math.ceil(change))} a second.` : 'It does not change.';
      return [
        figures(seen.chart(inner('lag'), 'Records behind', judge({ behind }, p).mood)),
        h('p', null, h('b', null, plural(behind, 'record')), ` behind. ${pace}`),
        h('details', null, h('summary', null, plural(partitions.length, 'partition')),
          table('Partitions of the log', [{ name: 'Partition' }, { name: 'Loaded up to' }, { name: 'End of the log' }, { name: 'Behind', number: true }],
            partitions.map((x) => [String(x.partition), x.loaded || 'nothing', x.end, number(x.behind)]))),
      ];
    },
  });
}

// spool shows another side of what the panel of nodes gets.
export function nodesAndSpool() {
  const seen = new Seen();
  const of = (answer) => answer.nodes.reduce((sum, n) => sum + n.spooled, 0);
  const silent = (answer) => answer.nodes.filter((n) => n.spooled > 0 && !n.live);
  const judge = (answer) => {
    const n = of(answer);
    if (n === 0) return { value: '0', mood: 'good', word: 'empty' };
    return silent(answer).length > 0 ? { value: number(n), mood: 'bad', word: 'of silent nodes' } : { value: number(n), mood: 'warn', word: 'records wait' };
  };
  const drawSpool = (answer) => [
    figures(seen.chart(inner('spool'), 'Records in spools', silent(answer).length > 0 ? 'bad' : '')),
    of(answer) === 0 ? h('p', { class: 'empty' }, 'All spools are empty.')
      : table('Spools', [{ name: 'Node' }, { name: 'State' }, { name: 'Records', number: true }],
        answer.nodes.filter((n) => n.spooled > 0).map((n) => [h('span', { class: 'mono' }, n.name || n.nodeId), n.live ? tag('drains', 'warn') : tag('silent', 'bad'), number(n.spooled)])),
  ];
  const first = nodes();
  const both = panel({
    ...first, keep: (answer, at) => {
      if (seen.series.length === 0) remember(seen, (p) => p.spooled);
      seen.add(of(answer), at);
      second.follow(answer, at);
    },
  });
  const second = follower({ id: 'spool', name: 'Spools', of: both, draw: drawSpool, judge });
  return both;
}

// follower is a panel that shows the answer of another one.
function follower({ id, name, of, draw, judge }) {
  const p = panel({ id, name, path: '', every: 0, draw, judge });
  const redraw = p.redraw;
  p.redraw = () => {
    p.failing = of.failing;
    redraw();
  };
  p.poll = () => {};
  p.follow = (answer, at) => {
    Object.assign(p, { answer, at });
    p.redraw();
  };
  const before = of.redraw;
  of.redraw = () => {
    before();
    p.redraw();
  };
  return p;
}

// kinds of drift, each with the check that finds it.
const kinds = [
  ['missing', 'rows', 'Events of the log without a row'], ['invented', 'rows', 'Rows without an event in the log'],
  ['duplicates', 'duplicates', 'Duplicates that are decided wrongly'],
  ['pack', 'packs', 'Packs that disagree with their rows'], ['statement', 'statements', 'Statements that disagree with their rows'],
];

const total = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);

export function drift() {
  // Checks fail from a poll at which more have failed, and none has succeeded, until one succeeds.
  let last = { checked: 0, failures: 0 };
  let fail = false;
  return panel({
    id: 'drift', name: 'Drift', path: '/console/api/drift', every: 10_000,
    keep: (answer) => {
      const now = { checked: total(answer.checked), failures: answer.failures };
      if (now.checked < last.checked || now.failures < last.failures) last = { checked: 0, failures: 0 }; // another process answers
      if (now.checked > last.checked) fail = false;
      else if (now.failures > last.failures) fail = true;
      last = now;
    },
    judge: ({ drift: found, checked, checking }) => {
      if (total(found) > 0) return { value: number(total(found)), mood: 'bad', word: 'must be 0' };
      if (!checking) return { value: '–', mood: 'plain', word: 'not checked here' };
      if (fail) return { value: '0', mood: 'warn', word: 'checks fail' };
      return total(checked) > 0 ? { value: '0', mood: 'good', word: 'checked here' } : { value: '–', mood: 'plain', word: 'not checked yet' };
    },
    draw: (answer) => [
      !answer.checking && h('p', { class: 'empty' }, 'This process does not check now: of several control processes one does. Open the console of the others, or look at muniment_metering_drift of all.'),
      h('ul', { class: 'kinds' }, kinds.map(([kind, check, text]) => {
        const n = answer.drift[kind] ?? 0;
        const checked = (answer.checked[check] ?? 0) > 0;
        const [mood, sign] = n > 0 ? ['bad', '✗'] : answer.checking && checked ? ['good', '✓'] : ['plain', '–'];
        return h('li', { class: mood }, h('span', { class: 'sign', 'aria-hidden': 'true' }, sign), h('span', null, text), h('b', null, n > 0 || checked ? number(n) : 'not checked yet'));
      })),
      h('p', { class: 'status' }, `Checked since this process started: ${plural(answer.checked.rows ?? 0, 'record')}, ${plural(answer.checked.packs ?? 0, 'pack')}, ${plural(answer.checked.statements ?? 0, 'statement')}.`,
        answer.failures > 0 && ` ${plural(answer.failures, 'check')} failed, for example because the warehouse was away, and will be made again.`),
    ],
  });
}

export function refusals() {
  const path = (hours) => `/console/api/refusals?hours=${hours}`;
  const p = panel({
    id: 'refusals', name: 'Refusals', path: path(6), every: 60_000,
    judge: ({ rules }) => {
      const n = rules.reduce((sum, r) => sum + r.refusals, 0);
      return { value: number(n), mood: 'plain', word: rules[0]?.rule ?? 'none' };
    },
    draw: ({ from, to, rules }) => (rules.length === 0 ? [h('p', { class: 'empty' }, `The gate has refused nothing between ${clock(from)} and ${clock(to)}.`)]
      : [figures(h('figure', null, h('figcaption', null, `Between ${clock(from)} and ${clock(to)}`), bars(rules.map((r) => [r.rule, r.refusals, number(r.refusals), 'refused']), { width: inner('refusals') })))]),
  });
  choices(p, 'hours', path);
  return p;
}

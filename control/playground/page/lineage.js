// The picture of the sandbox: bases, the rights on them, and what offers and challenges say of those.

import { byID, h, put, s } from './dom.js';
import { changed, onChange, state } from './state.js';

const moods = {
  ACTIVE: 'good', ACCEPTED: 'good', OVERTURNED: 'good', SUSPENDED: 'warn', OPEN: 'warn', NOT_BEGUN: 'info', REVOKED: 'bad', UPHELD: 'bad', PROPOSED: 'info', COUNTERED: 'info',
};

export const moodOf = (record) => moods[record] ?? 'plain';

// nodes are the records as a forest, each with its kind, title and children.
function forest({ bases, rights, offers, challenges }) {
  const oldest = (list) => list.toReversed();
  const of = (right) => [
    ...oldest(rights).filter((r) => r.parentRightId === right.id).map(rightNode),
    ...oldest(offers).filter((o) => o.rightId === right.id && o.state !== 'ACCEPTED').map((o) => ({ record: o, kind: 'Offer', title: `to ${o.toOrgId}`, state: o.state, children: [] })),
    ...oldest(challenges).filter((c) => c.rightId === right.id).map((c) => ({ record: c, kind: 'Challenge', title: c.reason, state: c.state, children: [] })),
  ];
  const rightNode = (r) => ({
    record: r, kind: r.parentRightId ? 'Derived right' : 'Right', title: r.substrate, state: r.effectiveState === r.state || !r.blockedBy ? r.effectiveState : `${r.effectiveState} by ${r.blockedBy.startsWith('bas_') ? 'its basis' : 'its parent'}`, stopped: r.effectiveState !== 'ACTIVE', children: of(r),
  });
  return oldest(bases).map((b) => ({
    record: b, kind: `Basis: ${b.kind.toLowerCase().replaceAll('_', ' ')}`, title: b.title, state: b.state, children: oldest(rights).filter((r) => r.basisId === b.id && !r.parentRightId).map(rightNode),
  }));
}

const height = 58;
const gap = 12;

// place gives every node a column and a row. In a wide picture a parent shares the row of its
// first child.
function place(nodes, wide) {
  const placed = [];
  let row = 0;
  const visit = (node, depth, parent) => {
    placed.push(node);
    Object.assign(node, { depth, parent, row });
    if (!wide || node.children.length === 0) row++;
    node.children.forEach((child) => visit(child, depth + 1, node));
  };
  nodes.forEach((node) => visit(node, 0, null));
  return { placed, rows: row };
}

const fitted = (text, room) => (text.length > room ? `${text.slice(0, Math.max(1, room - 1))}…` : text);

function draw() {
  const into = byID('lineage');
  if (!state.inspection) {
    put('lineage', h('p', { class: 'legend' }, 'Get a sandbox above: it comes with three legal bases and four rights.'));
    return;
  }
  const width = Math.max(280, into.clientWidth);
  const wide = width >= 520;
  const { placed, rows } = place(forest(state.inspection), wide);
  const columns = 1 + Math.max(...placed.map((n) => n.depth));
  const step = wide ? Math.max(150, (width + 26) / Math.max(3, columns)) : 18;
  const boxWidth = (n) => (wide ? step - 26 : width - n.depth * step - 4);
  const at = (n) => ({ x: 2 + n.depth * step, y: 2 + n.row * (height + gap) });
  const total = wide ? Math.max(width, columns * step) : width;
  const edges = placed.filter((n) => n.parent).map((n) => {
    const [a, b] = [at(n.parent), at(n)];
    const path = wide
      ? `M${a.x + boxWidth(n.parent)} ${a.y + height / 2} C${b.x - 13} ${a.y + height / 2} ${b.x - 13} ${b.y + height / 2} ${b.x} ${b.y + height / 2}`
      : `M${a.x + 9} ${a.y + height} V${b.y + height / 2} H${b.x}`;
    return s('path', { class: n.stopped ? 'edge stopped' : 'edge', d: path });
  });
  const focused = document.activeElement?.getAttribute?.('data-id');
  const picture = s('svg', { viewBox: `0 0 ${total} ${rows * (height + gap)}`, width: total, role: 'group', 'aria-label': 'Bases, rights, offers and challenges' },
    edges, placed.map((n) => box(n, at(n), boxWidth(n))));
  put('lineage', picture);
  if (focused) picture.querySelector(`[data-id="${focused}"]`)?.focus();
}

function box(n, { x, y }, width) {
  const choose = () => {
    state.selected = n.record.id;
    changed();
  };
  const room = Math.floor((width - 24) / 8.6);
  return s('g', {
    role: 'button', tabindex: '0', 'data-id': n.record.id, 'aria-pressed': String(state.selected === n.record.id), 'aria-label': `${n.kind} ${n.title}, ${n.state}`,
    onclick: choose, onkeydown: (e) => {
      if (e.key !== 'Enter' && e.key !== ' ') return;
      e.preventDefault();
      choose();
    },
  },
  s('rect', { class: 'box', x, y, width, height, rx: 10 }),
  s('text', { class: 'kind', x: x + 12, y: y + 17 }, fitted(n.kind.toUpperCase(), Math.floor((width - 20) / 8))),
  s('text', { x: x + 12, y: y + 34 }, fitted(n.title, room)),
  s('circle', { class: moodOf(n.state.split(' ')[0]), cx: x + 16, cy: y + 46.5, r: 3.5 }),
  s('text', { class: `state ${moodOf(n.state.split(' ')[0])}`, x: x + 25, y: y + 50.5 }, fitted(n.state, room)));
}

export function startLineage() {
  onChange(draw);
  let last = 0;
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - last) < 1) return;
    last = entry.contentRect.width;
    draw();
  }).observe(byID('lineage'));
}

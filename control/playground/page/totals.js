// What the entries of a pack add up to: which repeat another, and the rows of metering.

import { canonical } from './canonical.js';
import { utf8 } from './encoding.js';
import { delivered } from './entry.js';
import { impressions } from './shapes.js';

const window = 24 * 3600 * 1000;

// sharedBy is what a delivery has in common with those that it repeats; null if nothing.
function sharedBy(data) {
  if (data.idempotency) return `k${data.idempotency}`;
  if (data.identity) return `r${data.identity.day ?? ''} ${data.identity.hash}`;
  return null;
}

// repeatedHere finds, for each delivery that repeats an entry of this pack, the lowest such leaf.
export function repeatedHere(events, firstIndex) {
  const seen = new Map();
  const found = new Map();
  events.forEach((event, i) => {
    const shared = event?.type === delivered ? sharedBy(event.data) : null;
    if (shared === null) return;
    const at = Date.parse(event.at);
    const before = seen.get(shared) ?? [];
    const first = before.find((other) => shared.startsWith('r') || at - other.at <= window);
    if (first) found.set(firstIndex + i, first.leaf);
    seen.set(shared, [...before, { leaf: firstIndex + i, at }]);
  });
  return found;
}

// duplicatesAgree says whether the header's list is what the entries show. A leaf of an earlier
// pack can't be told without that pack: there the list is believed.
export function duplicatesAgree(header, events) {
  const here = repeatedHere(events, header.firstIndex);
  const listed = new Map(header.duplicates.map((d) => [d.leaf, d.first]));
  for (const [leaf, first] of here) {
    const said = listed.get(leaf);
    if (said === undefined || (said >= header.firstIndex && said !== first)) return false;
  }
  const rows = header.metering.filter((row) => row.meteringBasis === 'none' && row.reason === 'DUPLICATE');
  if (rows.reduce((n, row) => n + row.receipts, 0) !== new Set([...here.keys(), ...listed.keys()]).size) return false;
  for (const [leaf, first] of listed) {
    const event = events[leaf - header.firstIndex];
    if (event?.type !== delivered || sharedBy(event.data) === null) return false;
    if (first >= header.firstIndex && here.get(leaf) !== first) return false;
  }
  return true;
}

const names = ['rightId', 'substrate', 'basisId', 'meteringBasis', 'reason'];

const decimal = (parts) => {
  const text = parts.toString().padStart(5, '0');
  return `${text.slice(0, -4)}.${text.slice(-4)}`.replace(/\.?0+$/, '') || '0';
};

// compare sorts as bytes do.
function compare(a, b) {
  const [x, y] = [utf8(a), utf8(b)];
  for (let i = 0; i < Math.min(x.length, y.length); i++) if (x[i] !== y[i]) return x[i] - y[i];
  return x.length - y.length;
}

// meteringOf adds up the deliveries. What repeats another counts zero: by the entries, or by the
// header's list where it repeats an earlier pack.
export function meteringOf(header, events) {
  const duplicates = new Set([...repeatedHere(events, header.firstIndex).keys(), ...header.duplicates.filter((d) => d.first < header.firstIndex).map((d) => d.leaf)]);
  const rows = new Map();
  events.forEach((event, i) => {
    if (event?.type !== delivered) return;
    const { data } = event;
    const duplicate = duplicates.has(header.firstIndex + i);
    const key = canonical([data.rightId, data.substrate, data.basisId, duplicate ? 'none' : data.metering.basis, duplicate ? 'DUPLICATE' : data.metering.reason]);
    const row = rows.get(key) ?? { receipts: 0, quantityMs: 0, made: 0n };
    row.receipts += 1;
    if (!duplicate) {
      row.quantityMs += data.metering.quantityMs;
      row.made += impressions(data.metering.impressions);
    }
    rows.set(key, row);
  });
  return Array.from(rows, ([key, row]) => {
    const values = JSON.parse(key);
    return { ...Object.fromEntries(names.map((name, i) => [name, values[i]])), receipts: row.receipts, quantityMs: row.quantityMs, impressions: decimal(row.made) };
  }).sort((a, b) => names.reduce((order, name) => order || compare(a[name], b[name]), 0));
}

// A look into a pack that was verified: its entries, and what they add up to.

import { code, field, h, put, select, table, tag } from './dom.js';
import { delivered } from './pack.js';
import { short } from './state.js';

const pageOf = 100;

export function explore(result) {
  if (!result.pack) {
    put('explore');
    return;
  }
  const { header } = result.pack;
  put('explore', h('h3', null, 'What is in it'),
    h('dl', null, h('dt', null, 'Pack'), h('dd', { class: 'mono' }, header.packId), h('dt', null, 'Tenant'), h('dd', { class: 'mono' }, header.tenantId),
      h('dt', null, 'Sealed'), h('dd', null, header.sealedAt), h('dt', null, 'Leaves'), h('dd', null, `${header.firstIndex} to ${header.treeSize - 1}`),
      h('dt', null, 'Root'), h('dd', { class: 'mono' }, header.rootHash), h('dt', null, 'Follows'), h('dd', { class: 'mono' }, header.previous?.packId ?? 'nothing: it begins the log')),
    entries(result), metering(header), settlement(header, passed(result, 'settlement.ok')));
}

const passed = ({ file }, check) => file.verdicts.some((v) => v.code === check);

function entries(result) {
  const { pack, file } = result;
  const { events } = pack;
  const bad = new Map(file.verdicts.filter((v) => !v.ok && v.index !== null).map((v) => [v.index, v]));
  const types = [...new Set(events.map((e) => e?.type ?? 'unreadable'))].sort();
  const words = h('input', { type: 'search', autocomplete: 'off' });
  const type = select([['', 'all types'], ...types.map((t) => [t])], '');
  const list = h('div');
  const one = h('div', { 'aria-live': 'polite' });
  let most = pageOf;
  const redraw = () => {
    const wanted = words.value.trim().toLowerCase();
    const found = pack.entries.flatMap((text, i) => ((type.value === '' || (events[i]?.type ?? 'unreadable') === type.value) && text.toLowerCase().includes(wanted) ? [i] : []));
    const rows = found.slice(0, most).map((i) => row(result, i, bad.get(i), () => one.replaceChildren(entry(result, i, bad.get(i)))));
    list.replaceChildren(table(`${found.length} of ${pack.entries.length} entries`, [{ name: 'Leaf', number: true }, { name: 'Event' }, { name: 'At' }, { name: 'About' }, { name: 'What' }, { name: 'Check' }], rows));
    if (found.length > most) {
      list.append(h('button', { type: 'button', onclick: () => {
        most += 10 * pageOf;
        redraw();
      } }, 'Show more'));
    }
  };
  words.addEventListener('input', redraw);
  type.addEventListener('input', redraw);
  redraw();
  if (bad.size > 0) one.replaceChildren(entry(result, [...bad.keys()][0], [...bad.values()][0]));
  return h('div', null, h('h4', null, 'Entries'), h('div', { class: 'fields' }, field('Filter', words, 'Any text in an entry: an id, a substrate, a reason.'), field('Type', type)), list, one);
}

function row({ pack }, i, fault, open) {
  const event = pack.events[i];
  const leaf = String(pack.header.firstIndex + i);
  const look = h('button', { type: 'button', class: 'small', onclick: open, 'aria-label': `Look at leaf ${leaf}` }, 'Open');
  if (!event) return { attributes: { class: 'failed' }, cells: [leaf, 'unreadable', '', '', '', look] };
  const what = event.type === delivered
    ? [`${event.data.substrate}, ${Math.round(event.data.receipt.dwellMs)} ms `, tag(event.data.metering.reason, event.data.metering.metered ? 'good' : 'warn')]
    : event.data.state ?? event.data.reason ?? '';
  return { attributes: { class: fault ? 'failed' : undefined }, cells: [leaf, event.type, event.at.slice(11, 23), `${event.subject.kind} ${short(event.subject.id)}`, h('span', null, what), h('span', { class: 'buttons' }, look, fault && tag('failed', 'bad'))] };
}

// entry is one of them in full, and whether it is in the tree.
function entry(result, i, fault) {
  const { pack } = result;
  const leaf = pack.header.firstIndex + i;
  let text = pack.entries[i];
  try {
    text = JSON.stringify(JSON.parse(text), null, 2);
  } catch { /* it is shown as it is */ }
  return h('div', { class: 'panel' }, h('h4', null, `Leaf ${leaf}`), fault && h('p', null, tag('failed', 'bad'), ` ${fault.message}`),
    h('p', null, passed(result, 'inclusion.ok') ? `Its hash is leaf ${leaf} of the ${pack.header.treeSize} that make the root.` : 'Nothing shows that it is in the tree that was signed.'), code(text, 'Copy the entry'));
}

const cells = (row, names) => names.map((name) => (typeof row[name] === 'number' ? row[name].toLocaleString('en-US') : name.endsWith('Id') ? h('code', null, short(row[name])) : row[name]));

const columns = (names, titles) => titles.map((name, i) => ({ name, number: /receipts|quantityMs|impressions|amount/.test(names[i]) }));

function metering(header) {
  const names = ['substrate', 'rightId', 'meteringBasis', 'reason', 'receipts', 'quantityMs', 'impressions'];
  return h('div', null, h('h4', null, 'Metering'), header.metering.length === 0 ? h('p', { class: 'status' }, 'There is no delivery in it.')
    : table('What the deliveries add up to', columns(names, ['Substrate', 'Right', 'Billed as', 'Reason', 'Receipts', 'Milliseconds', 'Impressions']), header.metering.map((r) => cells(r, names))));
}

function settlement(header, recomputed) {
  const [stated] = header.settlement;
  if (!stated) return h('div', null, h('h4', null, 'Settlement'), h('p', { class: 'status' }, 'The log holds no settlement rule.'));
  const currency = new Map(stated.rules.map((r) => [r.rule.id, `${r.rule.price} ${r.rule.currency} per ${r.rule.unit.toLowerCase()}`]));
  const names = ['rightId', 'meteringBasis', 'receipts', 'quantityMs', 'price', 'amount'];
  const lines = stated.lines.map((l) => ({ ...l, price: currency.get(l.ruleId) ?? '' }));
  return h('div', null, h('h4', null, 'Settlement'), h('p', { class: 'status' }, recomputed ? 'Recomputed from the receipts, by the rules in the log.' : 'Signed as part of the header, and not recomputed.'),
    lines.length > 0 ? table('What the receipts are worth', columns(names, ['Right', 'Billed as', 'Receipts', 'Milliseconds', 'Price', 'Amount']), lines.map((l) => cells(l, names)))
      : h('p', { class: 'status' }, 'Nothing in it is billed.'),
    stated.unrated.length > 0 && h('p', { class: 'status' }, `${stated.unrated.reduce((n, u) => n + u.receipts, 0)} metered receipts have no rule.`));
}

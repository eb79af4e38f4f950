// Verifying a pack in this browser, what came of it, and what one altered character does.

import { send } from './api.js';
import { byID, code, field, h, put, say, select, tag } from './dom.js';
import { isNative } from './ed25519.js';
import { utf8 } from './encoding.js';
import { delivered } from './entry.js';
import { explore } from './explore.js';
import { readKeyList } from './keys.js';
import { readVerifier } from './note.js';
import { deliveriesOf, verifyPack } from './verify.js';

let root = null; // the field of the root key
let listed; // the keys of this service, a promise
let intact = null; // the result of the file as it was chosen

// keysOfService are those that this service lists for packs and receipts, of the sandbox and of
// tenants with keys.
async function keysOfService() {
  const all = new Map();
  for (const path of ['/.well-known/muniment/keys.json', '/api/sandbox/runtime-keys']) {
    const answer = await send({ path, cookie: false });
    const keys = answer.ok ? await readKeyList(answer.text) : null;
    for (const [id, key] of keys ?? []) all.set(id, key);
  }
  return all.size > 0 ? all : null;
}

// trusted is what the verdict rests on, and how to say so.
async function trusted() {
  const given = root.value.trim();
  if (given !== '') {
    const key = readVerifier(given);
    return key ? { root: key } : { refused: 'The root key is not spelt as a C2SP verifier key.' };
  }
  listed ??= keysOfService();
  const keys = await listed;
  if (!keys) listed = undefined; // next time again
  return keys ? { keys } : {};
}

const anchors = {
  root: 'The keys come from the directory in the pack, which the root key that you gave has delegated to.',
  keys: 'The keys are those that this service lists now. To trust it less, give a root key above, or run muniment verify --root.',
  none: 'The keys are what the file itself says: anybody can make such a file. Give a root key above.',
};

// judge verifies a file and shows the verdict.
export async function judge(bytes, name) {
  const trust = await trusted();
  if (trust.refused) {
    put('verdict', h('div', { class: 'outcome bad' }, h('p', null, trust.refused)));
    return;
  }
  const bar = h('progress', { max: '1', value: '0', 'aria-label': 'Verifying' });
  put('verdict', h('p', { class: 'status' }, `Verifying ${name}…`), bar);
  put('explore');
  const began = performance.now();
  const result = await verifyPack(bytes, trust, (done) => { bar.value = done; });
  Object.assign(result, { name, ms: performance.now() - began, native: await isNative(), trust });
  intact = result;
  await show(result);
}

async function show(result, change) {
  const { pack, events } = result;
  put('verdict', outcome(result, change), checksOf(result), pack && alteration(result, change), limits(result));
  explore(result);
  byID('verdict').focus({ preventScroll: true });
  byID('verdict').scrollIntoView({ block: 'start' });
  say(`${result.ok ? 'Verified' : 'Not verified'}: ${events.length} entries`);
}

// unjudged are the codes of what further files or another anchor may still show to be sound.
const unjudged = new Set(['key.unknown', 'key.revoked', 'directory.foreign', 'directory.expired']);

function outcome(result, change) {
  const { ok, pack, failures } = result;
  const where = result.native ? 'by your browser’s own Ed25519' : 'by Ed25519 in JavaScript';
  if (ok) {
    return h('div', { class: 'outcome good' }, h('h3', null, 'Verified in this browser'),
      h('p', null, `${pack.header.count} entries and ${deliveriesOf(result)} signed receipts of ${result.name}, checked in ${Math.round(result.ms)} ms ${where}. `, result.sandbox && tag('signed by a sandbox key', 'info')),
      h('p', null, anchors[result.anchor]));
  }
  if (failures.every((f) => unjudged.has(f.code))) {
    return h('div', { class: 'outcome bad' }, h('h3', null, 'Can’t be judged'),
      h('p', null, `Something is missing to judge ${result.name}: nothing in it was found to be wrong. ${failures[0].message}`), h('p', null, anchors[result.anchor]));
  }
  const named = failures.find((f) => f.entry !== undefined);
  return h('div', { class: 'outcome bad' }, h('h3', null, change ? 'Found out: the pack is not sound any more' : 'Not verified'),
    h('p', null, `${named ? `${named.message} ` : ''}${failures.length === 1 ? 'One check has failed' : `${failures.length} checks have failed`} in ${result.name}.`),
    h('p', null, anchors[result.anchor]));
}

const signs = { passed: ['✓', 'passed'], failed: ['✕', 'failed'], skipped: ['–', 'not made'] };

const mostShown = 5;

function checksOf({ verdicts }) {
  return h('ul', { class: 'checks', 'aria-label': 'Checks' }, verdicts.map(({ title, state, failures }) => h('li', { class: state },
    h('span', { class: 'sign', 'aria-hidden': 'true' }, signs[state][0]),
    h('span', null, h('span', { class: 'hidden' }, `${signs[state][1]}: `), state === 'failed' ? h('b', null, title) : title),
    failures.length > 0 && h('ul', null, failures.slice(0, mostShown).map((f) => h('li', null, f.message, ' ', h('code', null, f.code))), failures.length > mostShown && h('li', null, `and ${failures.length - mostShown} more`)))));
}

// alterable are places in a pack where one character can be changed, and what that should upset.
const alterable = [
  ['anchor', 'an anchor: what the receipt says'],
  ['right', 'a right: what the receipt was signed for'],
  ['quantity', 'a billed quantity: what is paid for'],
  ['signature', 'a signature of a receipt'],
  ['header', 'a number in the header'],
];

const patterns = {
  anchor: /("spatialAnchorId":")([^"\\])/, right: /("rightId":"rgh_\w{20})(\w)/, quantity: /("quantityMs":)(\d)/, signature: /("value":"[\w-]{20})([\w-])/, header: /("quantityMs":)(\d)/,
};

const another = (c) => (/\d/.test(c) ? String(c === '9' ? 8 : Number(c) + 1) : c === 'A' ? 'B' : 'A');

// altered changes one character of a pack. It returns the new file, and what was changed.
function altered({ pack, events }, what) {
  const deliveries = events.flatMap((event, i) => (event?.type === delivered ? [i] : []));
  const i = what === 'header' ? -1 : deliveries[Math.floor(Math.random() * deliveries.length)];
  const before = what === 'header' ? pack.headerText : pack.entries[i];
  const m = before === undefined ? null : patterns[what].exec(before);
  if (!m) return null;
  const at = m.index + m[1].length;
  const after = before.slice(0, at) + another(before[at]) + before.slice(at + 1);
  const changed = what === 'header' ? { ...pack, headerText: after } : { ...pack, entries: pack.entries.with(i, after) };
  return { text: pack.write(changed), entry: i, at, before, after };
}

function alteration(result, change) {
  const what = select(alterable, change?.what ?? 'anchor');
  const note = h('p', { role: 'status' });
  const alter = async () => {
    const made = altered(intact, what.value);
    if (!made) {
      note.textContent = 'This pack has nothing of that kind to alter.';
      return;
    }
    const began = performance.now();
    const now = await verifyPack(utf8(made.text), intact.trust);
    await show({ ...now, name: intact.name, ms: performance.now() - began, native: intact.native, trust: intact.trust }, { ...made, what: what.value });
  };
  return h('div', null, h('h3', null, 'Try to get away with it'),
    change && difference(change),
    h('div', { class: 'fields' }, field('Alter one character of', what, 'In a copy in this browser. The service keeps the pack as it is.')),
    h('p', { class: 'buttons' }, h('button', { type: 'button', class: 'danger', onclick: alter }, change ? 'Alter another one' : 'Alter it and verify again'),
      change && h('button', { type: 'button', onclick: () => show(intact) }, 'Put it back')), note);
}

function difference({ entry, at, before, after }) {
  const part = (text) => [text.slice(Math.max(0, at - 48), at), h('mark', null, text[at]), text.slice(at + 1, at + 40)];
  return h('div', { class: 'code' }, h('pre', null, `${entry < 0 ? 'header' : `entry ${entry + 1}`}, character ${at + 1}\n`, 'was  …', part(before), '…\n', 'is   …', part(after), '…'));
}

// limits says what this page does not check.
function limits(result) {
  const file = result.name.replace(/[^\w.-]/g, '');
  return h('details', null, h('summary', null, 'What only muniment verify checks'),
    h('ul', null,
      h('li', null, 'Settlement: that amounts and shares are what the rules in the log make of the receipts.'),
      h('li', null, 'Stops: that no receipt was issued after its right was suspended or revoked, or its key withdrawn.'),
      h('li', null, 'Several packs: that they follow each other without a gap or a fork, and repeat no delivery of an earlier one.'),
      h('li', null, 'Receipts, proofs, checkpoints and exports in files of their own.')),
    code(`curl -s '${location.origin}/api/sandbox/runtime-keys' -o runtime-keys.json\nmuniment verify --keys runtime-keys.json ${file}`, 'Copy the commands'));
}

// startVerdict returns the field of the root key.
export function startVerdict() {
  root = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'muniment+9d6f405e+ASCZ…' });
  return h('details', null, h('summary', null, 'Trust a root key instead of this service'), field('Root key', root, 'A C2SP verifier key, from somebody whom you trust. The operator of a service has it; muniment demo prints one.'));
}

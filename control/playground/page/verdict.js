// Verifying a pack in this browser, what came of it, and what one altered character does. What verifies is the program of
// the page /verify.

import { send } from './api.js';
import { byID, code, field, h, put, say, select, tag, warn } from './dom.js';
import { explore } from './explore.js';
import { altered, delivered, places, readPack } from './pack.js';

let root = null; // the field of the root key
let intact = null; // the result of the file as it was chosen

const listed = new Map(); // what this service has answered about its keys, by path

async function keysAt(path) {
  if (!listed.has(path)) {
    const answer = await send({ path, cookie: false });
    if (!answer.ok) return null;
    listed.set(path, new TextEncoder().encode(answer.text));
  }
  return listed.get(path);
}

// verifier loads the program when somebody verifies for the first time, as it is large.
async function verifier() {
  try {
    return { ...await import('/verify/program.js'), ...await import('/verify/report.js') };
  } catch {
    throw new Error('The service has no verifier for browsers, or it could not be loaded');
  }
}

// judge verifies a file and shows the verdict.
export async function judge(bytes, name) {
  put('explore');
  const result = await verified(bytes, name, root.value.trim());
  if (!result) return;
  intact = result;
  show(result);
}

// verified is what the program says of a file; undefined if it could not run.
async function verified(bytes, name, key) {
  put('verdict', h('p', { class: 'status' }, `Verifying ${name}…`), h('progress', { 'aria-label': 'Verifying' }));
  try {
    const shown = await verifier();
    const began = performance.now();
    const report = await shown.judge([[name, bytes]], key, keysAt);
    const [file] = report.files;
    const whole = file?.kind === 'pack' && !file.verdicts.some((v) => v.code === 'format.invalid');
    return { report, file, pack: whole ? readPack(bytes) : null, shown, name, key, ms: performance.now() - began };
  } catch (error) {
    put('verdict', h('div', { class: 'outcome open' }, h('h3', null, 'The verifier could not run'), h('p', null, `${error.message}. Verify the file on your computer, or load this page again.`)), elsewhere(name));
    warn('The verifier could not run');
    return undefined;
  }
}

function show(result, change) {
  const { file, report, shown } = result;
  put('verdict', outcome(result, change), file && shown.checksOf(file), intact.pack && intact.report.verdict === 'sound' && alteration(change), elsewhere(result.name));
  explore(result);
  byID('verdict').focus({ preventScroll: true });
  byID('verdict').scrollIntoView({ block: 'start' });
  say(report.summary || report.message);
}

function outcome({ report, file, pack, shown, name, ms }, change) {
  const { mood, title } = shown.verdicts[report.verdict];
  const titles = { sound: 'Verified in this browser', unsound: change ? 'Found out: the pack is not sound any more' : title, unjudged: title };
  const fault = report.verdict === 'unsound' && file.verdicts.find((v) => !v.ok && v.index !== null);
  return h('div', { class: `outcome ${mood}` }, h('h3', null, titles[report.verdict]),
    pack && report.verdict === 'sound' && h('p', null, `${pack.header.count} entries and ${pack.events.filter((event) => event?.type === delivered).length} signed receipts of ${name}, checked in ${Math.round(ms)} ms by muniment-verify in your browser. `,
      file.verdicts.some((v) => v.code === 'key.sandbox') && tag('signed by a sandbox key', 'info')),
    h('p', null, fault ? `Entry ${fault.index}${pack ? ` (leaf ${pack.header.firstIndex + fault.index})` : ''}: ${fault.message}. This must not be relied on.` : report.summary || `${report.message}. What to do: ${report.next}.`),
    file && h('p', null, shown.restsOn(report)));
}

function alteration(change) {
  const what = select(places, change?.place ?? 'anchor');
  const note = h('p', { role: 'status' });
  const alter = async () => {
    const made = altered(intact.pack, what.value);
    if (!made) {
      note.textContent = 'This pack has nothing of that kind to alter.';
      return;
    }
    const result = await verified(made.bytes, intact.name, intact.key);
    if (result) show(result, made);
  };
  return h('div', null, h('h3', null, 'Try to get away with it'),
    change && difference(change),
    h('div', { class: 'fields' }, field('Alter one character of', what, 'In a copy in this browser. The service keeps the pack as it is.')),
    h('p', { class: 'buttons' }, h('button', { type: 'button', class: 'danger', onclick: alter }, change ? 'Alter another one' : 'Alter it and verify again'),
      change && h('button', { type: 'button', onclick: () => show(intact) }, 'Put it back')), note);
}

function difference({ entry, at, before, after }) {
  const part = (text) => [text.slice(Math.max(0, at - 48), at), h('mark', null, text[at]), text.slice(at + 1, at + 40)];
  return h('div', { class: 'code' }, h('pre', null, `${entry < 0 ? 'header' : `entry ${entry}`}, character ${at + 1}\n`, 'was  …', part(before), '…\n', 'is   …', part(after), '…'));
}

// elsewhere says how to verify without this page.
function elsewhere(name) {
  return h('details', null, h('summary', null, 'Without trusting this page'),
    h('p', null, 'The same program runs on your computer. Packs that follow each other, receipts and statements are judged together there, or by your browser under ', h('a', { href: '/verify' }, 'Verify files'), '.'),
    code(`curl -s '${location.origin}/api/sandbox/runtime-keys' -o runtime-keys.json\nmuniment verify --keys runtime-keys.json ${name.replace(/[^\w.-]/g, '')}`, 'Copy the commands'));
}

// startVerdict returns the field of the root key.
export function startVerdict() {
  root = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'muniment+9d6f405e+ASCZ…' });
  return h('details', null, h('summary', null, 'Trust a root key instead of this service'), field('Root key', root, 'A C2SP verifier key, from somebody whom you trust. The operator of a service has it; muniment demo prints one.'));
}

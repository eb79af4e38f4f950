// The page: files come in, the program judges all of them, and the report is shown.

import { byID, field, h, put, say, warn } from './dom.js';
import { judge } from './program.js';
import { reportOf } from './report.js';

const chosen = new Map(); // the bytes of the files, by name
const sums = new Map(); // their SHA-256, by name
const offered = new Map(); // root keys that came among them, by the names of their files
let running = 0; // the number of the newest attempt: an older one shows nothing

const maxBytes = 512 * 1024 * 1024;

const root = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'muniment+9d6f405e+ASCZ…', oninput: () => verify() });
const input = h('input', { type: 'file', multiple: true, onchange: () => taking([...input.files]) });
const listed = h('div');

const hex = (bytes) => Array.from(new Uint8Array(bytes), (b) => b.toString(16).padStart(2, '0')).join('');

// sumOf is the SHA-256 of a file. Plain http has no WebCrypto: then the report has no hashes.
const sumOf = async (bytes) => (globalThis.crypto?.subtle ? hex(await crypto.subtle.digest('SHA-256', bytes)) : null);

// nameFor is a file's name, or one like it if two files have the same.
function nameFor(name) {
  const plain = name.replace(/^-+/, '').replace(/\//g, '_') || 'file';
  let free = plain;
  for (let n = 2; chosen.has(free); n++) free = `${n}-${plain}`;
  return free;
}

// dropped are the files of a drop, with those in folders. Hidden files, as systems leave them in folders, are no evidence.
async function dropped({ items, files }) {
  const entries = [...items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return [...files];
  const found = [];
  const walk = async (entry) => {
    if (entry.name.startsWith('.')) return;
    if (entry.isFile) {
      found.push(await new Promise((done, fail) => { entry.file(done, fail); }));
      return;
    }
    const reader = entry.createReader();
    for (;;) { // some at a time
      const some = await new Promise((done, fail) => { reader.readEntries(done, fail); });
      if (some.length === 0) return;
      for (const one of some) await walk(one);
    }
  };
  for (const entry of entries) await walk(entry);
  return found;
}

// taking takes files, and says so if one can't be read: it may be gone by then.
async function taking(files) {
  try {
    await take(await files);
  } catch (error) {
    put('report', h('div', { class: 'outcome open' }, h('h3', null, 'A file could not be read'), h('p', null, `${error.message}. Choose the files again.`)));
    warn(error.message);
  }
}

async function take(files) {
  for (const file of files) {
    const held = [...chosen.values()].reduce((sum, bytes) => sum + bytes.length, 0);
    if (held + file.size > maxBytes) {
      put('report', h('div', { class: 'outcome open' }, h('h3', null, 'Too large for a browser'), h('p', null, `With ${file.name} the files are larger than 512 MiB together. Verify them with muniment-verify.`)));
      return;
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    const text = bytes.length < 200 ? new TextDecoder().decode(bytes).trim() : '';
    if (/^[^\s+]+\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+$/.test(text)) { // a root key, and no evidence
      offered.set(file.name, text);
      continue;
    }
    const name = nameFor(file.name);
    chosen.set(name, bytes);
    const sum = await sumOf(bytes);
    if (sum) sums.set(name, sum);
  }
  input.value = '';
  await verify();
}

// showAnchor asks whether root keys that came among the files are the operator's. Who hands over the evidence must not choose
// by which key it is judged: none is used before the reader says so.
function showAnchor() {
  const used = root.value.trim();
  put('offered', [...offered].filter(([, key]) => key !== used).map(([name, key]) => h('div', { class: 'notice warn' },
    h('p', null, `${name} holds ${used === '' ? 'a root key' : 'another root key than the one below'}, which is not used. Whoever made the other files may have made it, too.`),
    h('p', { class: 'buttons' }, h('button', { type: 'button', class: 'small', onclick: () => { root.value = key; verify(); } }, `The operator gave me ${name}: use it`)))));
  if (used !== '') byID('anchor').querySelector('details').open = true;
}

// remove takes files away. The focus goes where more can be chosen, as its button is gone.
function remove(...names) {
  for (const name of names) {
    chosen.delete(name);
    sums.delete(name);
  }
  input.focus();
  verify();
}

// many is from how many files on the list is folded away.
const many = 20;

function showFiles() {
  const rows = [...chosen].map(([name, bytes]) => h('li', null, h('span', null, `${name}, ${bytes.length.toLocaleString('en')} bytes`),
    h('button', { type: 'button', class: 'small', 'aria-label': `Remove ${name}`, onclick: () => remove(name) }, 'Remove')));
  const list = h('ul', { class: 'files' }, rows);
  listed.replaceChildren(rows.length < many ? list : h('details', null, h('summary', null, `${rows.length.toLocaleString('en')} files`), list),
    rows.length > 1 ? h('p', { class: 'buttons' }, h('button', { type: 'button', class: 'small', onclick: () => remove(...chosen.keys()) }, 'Remove all files')) : '');
}

async function verify() {
  showFiles();
  showAnchor();
  const attempt = ++running;
  if (chosen.size === 0) {
    put('report');
    return;
  }
  put('report', h('p', { class: 'status' }, 'Verifying…'), h('progress', { 'aria-label': 'Verifying' }));
  try {
    const [files, hashes, given] = [[...chosen], new Map(sums), root.value.trim()];
    const report = await judge(files, given);
    if (attempt !== running) return;
    put('report', reportOf(report, hashes, given));
    say(report.summary || report.message);
    byID('report').scrollIntoView({ block: 'start' });
  } catch (error) {
    if (attempt !== running) return;
    put('report', h('div', { class: 'outcome open' }, h('h3', null, 'The verifier could not run'), h('p', null, error.message)));
    warn(error.message);
  }
}

// linked takes the file that the address leads to: a payee's link (#payee=TOKEN) leads to the proof of what is due. The
// token is in the fragment, which no browser sends, and is taken out of the address bar and the history.
async function linked() {
  const token = new URLSearchParams(location.hash.slice(1)).get('payee');
  if (token === null) return;
  history.replaceState(null, '', location.pathname);
  put('report', h('p', { class: 'status' }, 'Loading the proof…'), h('progress', { 'aria-label': 'Loading the proof' }));
  const fail = (title, text) => {
    put('report', h('div', { class: 'outcome open' }, h('h3', null, title), h('p', null, text)));
    warn(text);
  };
  try {
    const response = await fetch(`/payee/${encodeURIComponent(token)}/proof`, { referrerPolicy: 'no-referrer', cache: 'no-store', credentials: 'omit' });
    if (response.ok) {
      const name = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1] ?? 'proof.json';
      await take([new File([await response.arrayBuffer()], name)]);
    } else if (response.status === 409) fail('There is no proof yet', 'The log is not signed up to this paper yet. Open the link again in an hour.');
    else if (response.status === 404) fail('The link does not work', 'It is not complete, has ended or was revoked. Ask who sent it for another one.');
    else fail('The proof could not be loaded', `The service answered ${response.status}. Open the link again in a moment.`);
  } catch {
    fail('The proof could not be loaded', 'The service could not be reached. Open the link again in a moment.');
  }
}

const drop = byID('drop');
drop.append(field('Choose files, or drop them here', input, 'Several at once; a folder can be dropped, too. They stay on this computer.'), listed);
for (const name of ['dragover', 'dragleave', 'drop']) {
  addEventListener(name, (event) => {
    event.preventDefault();
    drop.classList.toggle('over', name === 'dragover');
    if (name === 'drop') taking(dropped(event.dataTransfer));
  });
}
put('anchor', h('div', { id: 'offered' }), h('details', null, h('summary', null, 'Trust a root key instead of this service'),
  field('Root key', root, 'From the operator, over a channel that you trust. If its file, root.vkey, is among the files, you are asked whether it is theirs.')));
addEventListener('beforeprint', () => { // a certificate names each file
  for (const folded of document.querySelectorAll('#report .many')) folded.open = true;
});
addEventListener('hashchange', linked);
await linked();

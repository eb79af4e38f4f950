// The proof of one play, judged in this browser: the receipt's signature, the event around it, and the way from
// there to the root that a checkpoint signs. What verifies shares nothing with the service's own code.

import { canonical } from './canonical.js';
import { fromBase64, fromBase64url, utf8 } from './encoding.js';
import { readEvent, receiptFault } from './entry.js';
import { keyFault, readKeyList, receiptPurposes, sandboxPurpose } from './keys.js';
import { included, leafHash } from './merkle.js';
import { isClaimedBy, openCheckpoint, openNote } from './note.js';

const packPurposes = ['proof_pack_signing', sandboxPurpose];

// readProof reads a C2SP tlog-proof; null for anything else.
export function readProof(text) {
  const at = text.indexOf('\n\n');
  const [title, index, ...hashes] = text.slice(0, Math.max(0, at)).split('\n');
  const leaf = /^index (0|[1-9]\d*)$/.exec(index ?? '');
  const path = hashes.map(fromBase64);
  if (title !== 'c2sp.org/tlog-proof@v1' || !leaf || path.some((hash) => hash?.length !== 32)) return null;
  return { leaf: Number(leaf[1]), path, checkpoint: text.slice(at + 2) };
}

// signerOf finds the key that a checkpoint claims to be signed by.
function signerOf(checkpoint, keys) {
  const note = openNote(checkpoint);
  const origin = note?.said.split('\n')[0];
  for (const key of keys.values()) {
    if (packPurposes.includes(key.purpose) && note && isClaimedBy(note.signed[0], origin, fromBase64url(key.publicKey))) return key;
  }
  return null;
}

// judged is whether something is sound, by its fault; null where a newer directory, or a proof from before a revocation,
// would show it.
const judged = (fault) => (['key.unknown', 'key.revoked', 'directory.expired'].includes(fault) ? null : fault === null);

// verifyProof judges the answer of GET /v1/receipts/{receiptId}/proof by the keys that a service lists. It returns the
// checks that were made, with ok: true, false, or null where something is missing to judge it.
export async function verifyProof({ event, proof }, keys) {
  const checks = [];
  const check = (name, ok, note) => checks.push({ name, ok, note });
  const read = readEvent(canonical(event));
  check('The event agrees with itself, and the receipt with the event around it', read.code === undefined, read.code);
  const parts = readProof(proof);
  check('The proof is one of the C2SP', parts !== null);
  if (read.code !== undefined || !parts) return checks;
  const { receipt, signature } = event.data;
  const signer = signerOf(parts.checkpoint, keys);
  if (!signer) {
    check('The checkpoint is signed by a key of this service', null, 'no key of the directory has signed it');
    return checks;
  }
  const checkpoint = await openCheckpoint(parts.checkpoint, signer);
  check('The checkpoint is signed as it has to be', checkpoint !== null);
  if (!checkpoint) return checks;
  // Its time is cut to the second, and may so be just before the key's window.
  const second = new Date(checkpoint.second * 1000).toISOString();
  const latest = second.replace('.000Z', '.999Z');
  const moment = signer.notBefore > second && signer.notBefore <= latest ? signer.notBefore : second;
  const fault = keyFault(signer, packPurposes, moment);
  check(`The key might sign then: ${checkpoint.size} entries, at ${second.slice(0, 19).replace('T', ' ')} UTC`, judged(fault), fault);
  check('The checkpoint is that of your tenant’s log', checkpoint.origin === `muniment/${event.tenantId}`);
  const leads = included(parts.leaf, checkpoint.size, leafHash(utf8(canonical(event))), parts.path, checkpoint.root);
  check(`The log has the event as its entry ${parts.leaf} (RFC 6962)`, leads);
  const signed = await receiptFault(receipt, signature, keys, [receiptPurposes[signer.purpose]], leads && fault === null ? latest : undefined);
  check('The receipt is signed by a node of this service (Ed25519 over RFC 8785)', judged(signed), signed);
  return checks;
}

async function keysOfService() {
  const all = new Map();
  for (const path of ['/.well-known/muniment/keys.json', '/api/sandbox/runtime-keys']) {
    const answer = await fetch(path);
    const keys = answer.ok ? await readKeyList(await answer.text()) : null;
    for (const [id, key] of keys ?? []) all.set(id, key);
  }
  return all;
}

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const marks = new Map([[true, ['passed', '✓', 'passed']], [false, ['failed', '✗', 'failed']], [null, ['skipped', '?', 'can’t be judged']]]);

// verifyHere fetches the proof that a place names, judges it, and says so there.
export async function verifyHere(place) {
  const target = place.querySelector('.outcome-place');
  target.replaceChildren(element('p', { class: 'status' }, 'Verifying…'));
  try {
    const answer = await fetch(place.dataset.verify);
    if (!answer.ok) throw new Error(`the proof was answered with status ${answer.status}`);
    const checks = await verifyProof((await answer.json()).data, await keysOfService());
    const verdict = checks.some((c) => c.ok === false) ? 'bad' : checks.some((c) => c.ok === null) ? 'plain' : 'good';
    const title = { bad: 'Not sound', plain: 'Can’t be judged here', good: 'Sound' }[verdict];
    const means = { bad: 'This is not what was recorded. Keep the file, and tell whoever runs the service.', plain: 'Something is missing: judge the downloaded file by muniment verify with the root key.', good: 'This play was recorded as it is shown here, and was not changed since it was sealed.' }[verdict];
    const list = checks.map((c) => {
      const [kind, sign, word] = marks.get(c.ok);
      return element('li', { class: kind }, element('span', { class: 'sign', 'aria-hidden': 'true' }, sign), element('span', {}, c.name, element('span', { class: 'hidden' }, `: ${word}`), c.ok || !c.note ? '' : ` (${c.note})`));
    });
    target.replaceChildren(element('div', { class: `outcome ${verdict}` }, element('h3', {}, title), element('p', {}, means)), element('ul', { class: 'checks' }, ...list));
  } catch (err) {
    target.replaceChildren(element('div', { class: 'outcome' }, element('h3', {}, 'Not verified'), element('p', {}, `The proof could not be read: ${err.message}.`)));
  }
}

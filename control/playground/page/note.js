// C2SP signed notes, and the checkpoint of a log among them.

import { isSound, verify } from './ed25519.js';
import { concat, equal, fromBase64, fromBase64url, hex, utf8 } from './encoding.js';
import { sha256 } from './sha2.js';

// openNote returns the text of a note and its signatures; null for what is no note.
export function openNote(note) {
  const at = note.lastIndexOf('\n\n');
  if (at < 0) return null;
  const said = note.slice(0, at + 1);
  const lines = note.slice(at + 2).split('\n');
  if (lines.pop() !== '' || lines.length === 0 || lines.length > 100) return null;
  const signed = [];
  for (const line of lines) {
    const m = /^— ([^\s+]+) (\S+)$/.exec(line);
    const value = m && fromBase64(m[2]);
    if (!value || value.length <= 4) return null;
    signed.push({ name: m[1], hash: value.slice(0, 4), value: value.slice(4) });
  }
  const names = new Set(signed.map((s) => `${s.name} ${hex(s.hash)}`));
  return names.size === signed.length ? { said, signed } : null;
}

const keyHash = (name, kind, key) => sha256(concat(utf8(`${name}\n`), Uint8Array.of(kind), key)).slice(0, 4);

// isClaimedBy says whether a signature of a note is said to be by a key under a name.
export const isClaimedBy = (signature, name, key) => signature.name === name && equal(signature.hash, keyHash(name, 1, key));

// isSignedBy says whether one signature of a note is by a key under a name.
export async function isSignedBy(note, signature, name, key) {
  return signature !== undefined && isClaimedBy(signature, name, key) && verify(key, signature.value, utf8(note.said));
}

// readVerifier reads a C2SP vkey; null for anything else.
export function readVerifier(text) {
  const [name, hash, encoded] = text.trim().split(/\+(.*?)\+(.*)/s);
  const key = encoded === undefined ? null : fromBase64(encoded);
  if (!key || key.length !== 33 || key[0] !== 1 || !isSound(key.slice(1))) return null;
  return hex(keyHash(name, 1, key.slice(1))) === hash ? { name, key: key.slice(1) } : null;
}

// openCheckpoint reads a checkpoint, and checks both of its signatures, by one key. It returns
// null unless all of that holds.
export async function openCheckpoint(text, key) {
  const note = openNote(text);
  if (!note || note.signed.length < 2) return null;
  const [origin, size, root, end] = note.said.split('\n');
  const [first, second] = note.signed;
  const publicKey = fromBase64url(key.publicKey);
  const hash = fromBase64(root ?? '');
  if (!(await isSignedBy(note, first, origin, publicKey))) return null;
  if (second.name !== 'muniment/sealed' || second.value.length !== 72 || !equal(second.hash, keyHash(second.name, 4, publicKey))) return null;
  const sealed = new DataView(second.value.buffer, second.value.byteOffset, 8).getBigUint64(0);
  if (!(await verify(publicKey, second.value.slice(8), utf8(`cosignature/v1\ntime ${sealed}\n${note.said}`)))) return null;
  if (!/^(0|[1-9]\d*)$/.test(size) || hash?.length !== 32 || end !== '') return null;
  return { origin, size: Number(size), root: hash, second: Number(sealed) };
}

// The keys that are trusted, and when each may sign.

import { canonical, parse } from './canonical.js';
import { isSound, keyID, verify } from './ed25519.js';
import { fromBase64url, utf8 } from './encoding.js';
import { isClaimedBy, isSignedBy, openNote } from './note.js';
import * as shapes from './shapes.js';

export const sandboxPurpose = 'sandbox_proof_signing';

// receiptPurposes are the purposes of receipts in a pack, by the purpose of the pack's key.
export const receiptPurposes = { proof_pack_signing: 'receipt_signing', [sandboxPurpose]: sandboxPurpose };

// byID returns the keys of a list; null if one is not sound, has another's id, or is there twice.
export function byID(list) {
  const keys = new Map(list.map((key) => [key.keyId, key]));
  const sound = list.every((key) => {
    const publicKey = fromBase64url(key.publicKey);
    return isSound(publicKey) && keyID(publicKey) === key.keyId;
  });
  return sound && keys.size === list.length ? keys : null;
}

const covers = (key, moment) => key.notBefore <= moment && (key.notAfter === null || moment < key.notAfter);

// keyFault says why a key may not have signed at a moment; null if it may. proven is when
// something else shows that the signature was there.
export function keyFault(key, purposes, moment, proven) {
  if (key === undefined) return 'key.unknown';
  if (!purposes.includes(key.purpose)) return 'key.purpose';
  // A directory says nothing after the end of its delegation: a newer one may.
  if (!covers({ ...key, notAfter: 'listed' in key ? key.listed : key.notAfter }, moment)) return 'key.outside_window';
  if (key.revokedAt !== null && moment >= key.revokedAt) return 'key.outside_window';
  if (!covers(key, moment)) return 'directory.expired';
  if (key.revokedAt !== null && !(proven !== undefined && proven < key.revokedAt)) return 'key.revoked';
  return null;
}

// openDirectory returns the keys of a directory, none of which may sign after the end of its
// delegation; null if it is not signed as it has to be. Without a root key it only has to agree
// with itself.
export async function openDirectory(directory, root) {
  const keys = byID(directory.keys);
  const signer = keys?.get(directory.signature.keyId);
  if (keyFault(signer, ['directory_signing'], directory.issuedAt) !== null) return null;
  const note = openNote(directory.delegation);
  if (!note || (root && !(await isSignedBy(note, note.signed[0], root.name, root.key)))) return null;
  const [title, id, publicKey, notBefore, notAfter, end] = note.said.split('\n');
  if (title !== 'muniment/directory-key.v1' || id !== signer.keyId || publicKey !== signer.publicKey || end !== '') return null;
  if (!shapes.time(notBefore) || !shapes.time(notAfter) || !covers({ notBefore, notAfter }, directory.issuedAt)) return null;
  const { signature, ...unsigned } = directory;
  if (!(await verify(fromBase64url(signer.publicKey), fromBase64url(signature.value), utf8(canonical(unsigned))))) return null;
  for (const [name, key] of keys) {
    keys.set(name, { ...key, listed: key.notAfter, notAfter: key.notAfter === null || key.notAfter > notAfter ? notAfter : key.notAfter });
  }
  return keys;
}

// isForeign says whether a directory agrees with itself, and does not claim that the root has delegated to it.
export async function isForeign(directory, root) {
  const signed = openNote(directory.delegation)?.signed ?? [];
  return !signed.some((s) => isClaimedBy(s, root.name, root.key)) && (await openDirectory(directory, null)) !== null;
}

// readKeyList reads the keys that a service answers with: a directory, or the sandbox's list.
export async function readKeyList(text) {
  const directory = parse(text.replace(/\n$/, ''));
  if (directory !== undefined && shapes.fits(directory, shapes.directory)) return openDirectory(directory, null);
  const answer = JSON.parse(text);
  const list = answer.data ?? answer;
  return shapes.fits(list.keys, [shapes.key]) ? byID(list.keys) : null;
}

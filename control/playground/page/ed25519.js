// Ed25519 (RFC 8032): the browser's own where there is one, else noble-ed25519.

import { fromBase64url, hex } from './encoding.js';
import * as noble from './noble-ed25519.js';
import { sha256, sha512 } from './sha2.js';

noble.hashes.sha512 = sha512;

let native; // a promise of whether the browser has it

// A pair of RFC 8032, section 7.1, test 1: a browser that accepts it has Ed25519.
const known = ['11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo', '5VZDAMNgrHKQhuLMgG6CioSHfx645dl02HPgZSJJAVVfuIIVkKM7rMYeOXAc-bRr0lv18FlbviRlUUFDjnoQCw'];

const subtle = globalThis.crypto?.subtle;

async function byBrowser(key, signature, message) {
  const imported = await subtle.importKey('raw', key, { name: 'Ed25519' }, false, ['verify']);
  return subtle.verify({ name: 'Ed25519' }, imported, signature, message);
}

// isNative says whether the browser verifies signatures itself.
export function isNative() {
  native ??= subtle === undefined
    ? Promise.resolve(false)
    : byBrowser(fromBase64url(known[0]), fromBase64url(known[1]), new Uint8Array(0)).catch(() => false);
  return native;
}

// byNoble takes no signature that one verifier accepts and another does not: RFC 8032 strictly.
export const byNoble = (key, signature, message) => noble.verify(signature, message, key, { zip215: false });

export async function verify(key, signature, message) {
  if (signature === null || signature.length !== 64) return false;
  try {
    return (await isNative()) ? await byBrowser(key, signature, message) : byNoble(key, signature, message);
  } catch {
    return false;
  }
}

const prime = 2n ** 255n - 19n;
const eighth = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
const smallOrder = [0n, 1n, prime - 1n, eighth, prime - eighth];

// isSound says whether a public key is spelt canonically, and is none of the points of small
// order: anybody can sign with such a key.
export function isSound(key) {
  if (key === null || key.length !== 32) return false;
  const y = BigInt.asUintN(255, BigInt(`0x${hex(key.slice().reverse())}`));
  return y < prime && !smallOrder.includes(y);
}

// keyID is the id of a public key.
export const keyID = (key) => hex(sha256(key)).slice(0, 32);

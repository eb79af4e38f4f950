// Key directories, and the root key that they are trusted by.

import {
  canonical, fromBase64, fromBase64url, hasMembers, isName, type Json, type JsonObject, millis, parseCanonical, same, sha256, signedBy, utf8, VerifyError,
} from './canonical.js';
import { isSigned, keyHash, readNote } from './note.js';

/** A key of a directory. Times are milliseconds; an end that is open is Infinity. */
export interface Key {
  keyId: string;
  publicKey: Uint8Array;
  purpose: string;
  notBefore: number;
  notAfter: number;
  revokedAt: number;
}

const invalid = (what: string) => new VerifyError('directory.invalid', `cannot trust the key directory: ${what}`);

const p = 2n ** 255n - 19n;
const q = 0x5fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
const weak = [0n, 1n, p - 1n, q, p - q];

/** Whether a public key is spelt canonically, and none that anybody can sign with. */
function isSound(publicKey: Uint8Array): boolean {
  const y = publicKey.reduceRight((n, byte) => n * 256n + BigInt(byte), 0n) & (2n ** 255n - 1n);
  return y < p && !weak.includes(y);
}

/**
 * What verification rests on: the keys that a service signs with. It is immutable.
 */
export class Trust {
  private constructor(private readonly keys: Map<string, Key>) {}

  /**
   * Reads a key directory, as Client.keyDirectory returns it, which has to be signed under the root key,
   * a C2SP vkey that was got on another way than the directory. Without a root the directory is taken
   * on trust, wherever it is from: a weaker ground.
   */
  static async of(root: string | undefined, directory: string): Promise<Trust> {
    const text = directory.replace(/\n$/, '');
    let d: Json;
    try {
      d = parseCanonical(text);
    } catch (err) {
      throw invalid((err as Error).message);
    }
    if (!hasMembers(d, 'delegation', 'issuedAt', 'keys', 'signature', 'snapshotId') || !Array.isArray(d.keys) || !isName(d.snapshotId) || !isName(d.delegation)) {
      throw invalid('it is none');
    }
    const keys = new Map<string, Key>();
    for (const listed of d.keys) {
      const key = await readKey(listed);
      if (keys.has(key.keyId)) throw invalid(`key ${key.keyId} is listed twice`);
      keys.set(key.keyId, key);
    }
    const end = await checkSignature(d, keys, root);
    // After the end of its delegation the directory is valid for no key.
    for (const key of keys.values()) key.notAfter = Math.min(key.notAfter, end);
    return new Trust(keys);
  }

  /** The key of an id; undefined if it is not listed. */
  key(keyId: string): Key | undefined {
    return this.keys.get(keyId);
  }

  all(): Iterable<Key> {
    return this.keys.values();
  }

  /**
   * The public key, if it may have signed for a purpose at a moment. A revoked one is refused, as the
   * thief of a key can write any moment, unless a checkpoint covered the signature before that.
   */
  find(keyId: string, purpose: string, at: number, sealedAt = Infinity): Uint8Array {
    const key = this.keys.get(keyId);
    const code = !key ? 'key.unknown' : key.purpose !== purpose ? 'key.purpose' : fault(key, at, sealedAt);
    if (code !== '') throw new VerifyError(code, `key ${keyId} at ${new Date(at).toISOString()}`);
    return key!.publicKey;
  }
}

function fault(key: Key, at: number, sealedAt: number): string {
  if (at < key.notBefore || at >= key.notAfter) return 'key.outside_window';
  return key.revokedAt !== Infinity && (sealedAt >= key.revokedAt || at >= key.revokedAt) ? 'key.revoked' : '';
}

async function readKey(v: Json): Promise<Key> {
  if (!hasMembers(v, 'algorithm', 'keyId', 'notAfter', 'notBefore', 'publicKey', 'purpose', 'revokedAt')) throw invalid('a key is malformed');
  const publicKey = fromBase64url(v.publicKey, 32);
  const end = (t: Json | undefined) => (t === null ? Infinity : millis(t));
  const [notBefore, notAfter, revokedAt] = [millis(v.notBefore), end(v.notAfter), end(v.revokedAt)];
  if (!publicKey || v.algorithm !== 'ed25519' || !isName(v.purpose) || [notBefore, notAfter, revokedAt].some(Number.isNaN)) throw invalid('a key is malformed');
  if (!isSound(publicKey)) throw invalid('anybody can sign with one of its keys');
  const keyId = await idOf(publicKey);
  if (v.keyId !== keyId) throw invalid('the id of a key is that of another');
  return { keyId, publicKey, purpose: v.purpose, notBefore, notAfter, revokedAt };
}

const idOf = async (publicKey: Uint8Array) => Array.from((await sha256(publicKey)).slice(0, 16), (b) => b.toString(16).padStart(2, '0')).join('');

/** Checks who has signed a directory, and returns the end of what the root has delegated. */
async function checkSignature(d: JsonObject, keys: Map<string, Key>, root: string | undefined): Promise<number> {
  const { signature, ...signed } = d;
  const value = hasMembers(signature, 'algorithm', 'keyId', 'value') && signature.algorithm === 'ed25519' ? fromBase64url(signature.value, 64) : undefined;
  const key = value && keys.get(String((signature as JsonObject).keyId));
  const issuedAt = millis(d.issuedAt);
  if (!key || key.purpose !== 'directory_signing' || Number.isNaN(issuedAt) || fault(key, issuedAt, Infinity) !== '') throw invalid('its key may not sign it');
  if (!(await signedBy(key.publicKey, value, utf8(canonical(signed))))) throw invalid('the signature of its key is invalid');
  let note;
  try {
    note = readNote(String(d.delegation));
  } catch (err) {
    throw invalid((err as Error).message);
  }
  const [title, id, encoded, begin, end, ...rest] = note.text.split('\n');
  const [notBefore, notAfter] = [millis(begin), millis(end)];
  const publicKey = fromBase64url(encoded, 32);
  if (title !== 'muniment/directory-key.v1' || id !== key.keyId || !publicKey || !same(publicKey, key.publicKey) || rest.length !== 1 || rest[0] !== '') {
    throw invalid('the delegation is not for its key');
  }
  if (!(notBefore <= issuedAt && issuedAt < notAfter)) throw invalid('the delegation does not cover the moment of issue');
  if (root !== undefined) {
    const { name, publicKey: anchor } = await readRoot(root);
    if (!(await isSigned(note, 0, name, anchor))) throw invalid('the root key has not signed the delegation');
  }
  return notAfter;
}

/** Reads a C2SP vkey. */
async function readRoot(vkey: string): Promise<{ name: string; publicKey: Uint8Array }> {
  const [, name, hash, encoded] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/.exec(vkey.trim()) ?? [];
  const key = fromBase64(encoded, 33);
  const publicKey = key?.slice(1);
  if (name === undefined || key?.[0] !== 1 || !publicKey || !isSound(publicKey)
    || hash !== Array.from(await keyHash(name, 1, publicKey), (b) => b.toString(16).padStart(2, '0')).join('')) {
    throw invalid('the root key is no C2SP vkey');
  }
  return { name, publicKey };
}

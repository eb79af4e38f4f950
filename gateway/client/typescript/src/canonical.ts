// Texts that are signed and hashed: RFC 8785, base64, times, ids. Readers accept exactly what writers
// write.

/** A check that failed. Its code is one of muniment verify's. */
export class VerifyError extends Error {
  override readonly name = 'VerifyError';
  constructor(readonly code: string, message: string) {
    super(`${code}: ${message}`);
  }
}

export const malformed = (what: string) => new VerifyError('format.invalid', what);

const encoder = new TextEncoder();
export const utf8 = (text: string) => encoder.encode(text);

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

/** The RFC 8785 text of a value. It throws on what no such text says. */
export function canonical(v: Json): string {
  if (Array.isArray(v)) return `[${v.map(canonical).join(',')}]`;
  if (typeof v === 'object' && v !== null) {
    return `{${Object.keys(v).sort().map((name) => `${quoted(name)}:${canonical(v[name]!)}`).join(',')}}`;
  }
  if (typeof v === 'string') return quoted(v);
  if (typeof v === 'number' && !Number.isFinite(v)) throw malformed('a number is out of range');
  return JSON.stringify(v);
}

function quoted(text: string): string {
  if (/\p{Surrogate}/u.test(text)) throw malformed('a text is not Unicode');
  return JSON.stringify(text);
}

/** The value of one JSON text, in which no object has a member twice. */
export function parse(text: string): Json {
  try {
    const v = JSON.parse(text) as Json;
    if (hasNameTwice(text)) throw malformed('a member is there twice');
    return v;
  } catch (err) {
    throw err instanceof VerifyError ? err : malformed(`it is not one JSON value: ${(err as Error).message}`);
  }
}

/** Whether an object of a text, which is JSON, has a member twice: JSON.parse keeps the last one. */
function hasNameTwice(text: string): boolean {
  const open: Set<string>[] = [];
  for (const [token, name, colon] of text.matchAll(/("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}]/g)) {
    if (token === '{') open.push(new Set());
    else if (token === '}') open.pop();
    else if (name !== undefined && colon !== undefined) {
      const members = open.at(-1)!;
      const known = JSON.parse(name) as string;
      if (members.has(known)) return true;
      members.add(known);
    }
  }
  return false;
}

/** The value of a text that has to be in RFC 8785 form. */
export function parseCanonical(text: string): Json {
  const v = parse(text);
  let again: string;
  try {
    again = canonical(v);
  } catch (err) {
    throw err instanceof VerifyError ? err : malformed((err as Error).message);
  }
  if (again !== text) throw malformed('it is not in RFC 8785 form');
  return v;
}

/** Whether a value is an object with these members, those that end in "?" being optional, and no other. */
export function hasMembers(v: Json | undefined, ...names: string[]): v is JsonObject {
  if (typeof v !== 'object' || v === null || Array.isArray(v)) return false;
  const known = new Set(names.map((name) => name.replace('?', '')));
  return Object.keys(v).every((name) => known.has(name)) && names.every((name) => name.endsWith('?') || Object.hasOwn(v, name));
}

export const isName = (v: unknown): v is string => typeof v === 'string' && v !== '';
export const isWhole = (v: unknown): v is number => typeof v === 'number' && Number.isInteger(v) && v >= 0 && v <= 2 ** 53;

/** Bytes of base64, in its one spelling; undefined if it is none. */
export function fromBase64(text: unknown, size?: number): Uint8Array | undefined {
  if (typeof text !== 'string' || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
  let raw: string;
  try {
    raw = atob(text);
  } catch {
    return undefined;
  }
  if (btoa(raw) !== text || size !== undefined && raw.length !== size) return undefined;
  return Uint8Array.from(raw, (c) => c.charCodeAt(0));
}

export function toBase64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

/** Bytes of base64url without padding, in its one spelling; undefined if it is none. */
export function fromBase64url(text: unknown, size: number): Uint8Array | undefined {
  if (typeof text !== 'string' || !/^[\w-]*$/.test(text)) return undefined;
  const bytes = fromBase64(text.replaceAll('-', '+').replaceAll('_', '/') + '='.repeat((4 - text.length % 4) % 4), size);
  return bytes && toBase64url(bytes) === text ? bytes : undefined;
}

export const toBase64url = (bytes: Uint8Array) => toBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');

/** Milliseconds of a time in its one spelling, of the years 1 to 9999; NaN if it is none. */
export function millis(text: unknown): number {
  if (typeof text !== 'string' || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(text) || text.startsWith('0000')) return NaN;
  const at = Date.parse(text);
  return Number.isNaN(at) || new Date(at).toISOString() !== text ? NaN : at;
}

const crockford = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** The moment of an id of a prefix and a ULID, in milliseconds; NaN if it is none. */
export function momentOf(id: unknown, prefix: string): number {
  if (typeof id !== 'string' || !id.startsWith(prefix) || !/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/.test(id.slice(prefix.length))) return NaN;
  return [...id.slice(prefix.length, prefix.length + 10)].reduce((n, c) => n * 32 + crockford.indexOf(c), 0);
}

export const isTenant = (id: unknown) => id === 'tnt_system' || !Number.isNaN(momentOf(id, 'tnt_'));

export async function sha256(...parts: Uint8Array[]): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', joined(...parts)));
}

export function joined(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export const same = (a: Uint8Array, b: Uint8Array) => a.length === b.length && a.every((byte, i) => byte === b[i]);

/** Whether an Ed25519 signature is by a key. */
export async function signedBy(publicKey: Uint8Array, signature: Uint8Array, message: Uint8Array): Promise<boolean> {
  const key = await crypto.subtle.importKey('raw', joined(publicKey), { name: 'Ed25519' }, false, ['verify']);
  return await crypto.subtle.verify({ name: 'Ed25519' }, key, joined(signature), joined(message));
}

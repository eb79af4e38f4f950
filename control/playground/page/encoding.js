// Bytes and their spellings.

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export const utf8 = (text) => encoder.encode(text);

// text throws if the bytes are not UTF-8.
export const text = (bytes) => decoder.decode(bytes);

export function concat(...parts) {
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    all.set(p, at);
    at += p.length;
  }
  return all;
}

export const equal = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);

export const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');

export const base64 = (bytes) => btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(''));

export const base64url = (bytes) => base64(bytes).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');

// fromBase64 reads standard base64 in its one spelling, and returns null for any other.
export function fromBase64(spelt) {
  let binary;
  try {
    binary = atob(spelt);
  } catch {
    return null;
  }
  const bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0));
  return base64(bytes) === spelt ? bytes : null;
}

// fromBase64url reads base64url without padding, with unused bits zero; null for anything else.
export function fromBase64url(spelt) {
  if (typeof spelt !== 'string' || /[^\w-]/.test(spelt)) return null;
  const bytes = fromBase64(spelt.replaceAll('-', '+').replaceAll('_', '/') + '='.repeat((4 - (spelt.length % 4)) % 4));
  return bytes && base64url(bytes) === spelt ? bytes : null;
}

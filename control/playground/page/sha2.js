// SHA-256 and SHA-512 (FIPS 180-4). WebCrypto has both, but only on https and on localhost, and a
// log's tree is made of many short hashes, for which a promise each is slow.

import { concat } from './encoding.js';

const primes = [];
for (let n = 2; primes.length < 80; n++) {
  if (primes.every((p) => n % p !== 0)) primes.push(n);
}

// root is the fraction of the nth root of a prime, as so many bits.
function root(prime, nth, bits) {
  const wanted = BigInt(prime) << BigInt(nth * bits);
  let low = 0n;
  let high = BigInt(prime) << BigInt(bits);
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** BigInt(nth) <= wanted) low = middle;
    else high = middle;
  }
  return BigInt.asUintN(bits, low);
}

const k512 = primes.map((p) => root(p, 3, 64));
const start512 = primes.slice(0, 8).map((p) => root(p, 2, 64));
const k256 = Uint32Array.from(primes.slice(0, 64), (p) => Number(root(p, 3, 32)));
const start256 = Uint32Array.from(primes.slice(0, 8), (p) => Number(root(p, 2, 32)));

// padded ends a message with its length, in blocks.
function padded(message, block) {
  const lengthBytes = block / 8;
  const zeros = (2 * block - ((message.length + 1 + lengthBytes) % block)) % block;
  const all = concat(message, Uint8Array.of(0x80), new Uint8Array(zeros + lengthBytes));
  new DataView(all.buffer).setBigUint64(all.length - 8, BigInt(message.length) * 8n);
  return all;
}

export function sha256(message) {
  const bytes = padded(message, 64);
  const view = new DataView(bytes.buffer);
  const h = start256.slice();
  const w = new Uint32Array(64);
  const right = (x, n) => (x >>> n) | (x << (32 - n));
  for (let at = 0; at < bytes.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + 4 * i);
    for (let i = 16; i < 64; i++) {
      const s0 = right(w[i - 15], 7) ^ right(w[i - 15], 18) ^ (w[i - 15] >>> 3);
      const s1 = right(w[i - 2], 17) ^ right(w[i - 2], 19) ^ (w[i - 2] >>> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    let [a, b, c, d, e, f, g, i8] = h;
    for (let i = 0; i < 64; i++) {
      const t1 = (i8 + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + ((e & f) ^ (~e & g)) + k256[i] + w[i]) | 0;
      const t2 = ((right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [i8, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    [a, b, c, d, e, f, g, i8].forEach((x, i) => {
      h[i] += x;
    });
  }
  const out = new DataView(new ArrayBuffer(32));
  h.forEach((x, i) => out.setUint32(4 * i, x));
  return new Uint8Array(out.buffer);
}

export function sha512(message) {
  const bytes = padded(message, 128);
  const view = new DataView(bytes.buffer);
  const h = start512.slice();
  const w = new Array(80);
  const wrap = (x) => BigInt.asUintN(64, x);
  const right = (x, n) => (x >> n) | wrap(x << (64n - n));
  for (let at = 0; at < bytes.length; at += 128) {
    for (let i = 0; i < 16; i++) w[i] = view.getBigUint64(at + 8 * i);
    for (let i = 16; i < 80; i++) {
      const s0 = right(w[i - 15], 1n) ^ right(w[i - 15], 8n) ^ (w[i - 15] >> 7n);
      const s1 = right(w[i - 2], 19n) ^ right(w[i - 2], 61n) ^ (w[i - 2] >> 6n);
      w[i] = wrap(w[i - 16] + s0 + w[i - 7] + s1);
    }
    let [a, b, c, d, e, f, g, i8] = h;
    for (let i = 0; i < 80; i++) {
      const t1 = i8 + (right(e, 14n) ^ right(e, 18n) ^ right(e, 41n)) + ((e & f) ^ (wrap(~e) & g)) + k512[i] + w[i];
      const t2 = (right(a, 28n) ^ right(a, 34n) ^ right(a, 39n)) + ((a & b) ^ (a & c) ^ (b & c));
      [i8, g, f, e, d, c, b, a] = [g, f, e, wrap(d + t1), c, b, a, wrap(t1 + t2)];
    }
    [a, b, c, d, e, f, g, i8].forEach((x, i) => {
      h[i] = wrap(h[i] + x);
    });
  }
  const out = new DataView(new ArrayBuffer(64));
  h.forEach((x, i) => out.setBigUint64(8 * i, x));
  return new Uint8Array(out.buffer);
}

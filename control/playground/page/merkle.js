// The Merkle tree of a log (RFC 6962).

import { concat, equal } from './encoding.js';
import { sha256 } from './sha2.js';

export const leafHash = (event) => sha256(concat(Uint8Array.of(0), event));

export const node = (left, right) => sha256(concat(Uint8Array.of(1), left, right));

// half is the largest power of two below n, where n leaves are parted.
function half(n) {
  let k = 1;
  while (k * 2 < n) k *= 2;
  return k;
}

// extended follows the consistency proof between two sizes. It returns the roots that the proof
// leads to, and the perfect subtrees of the old tree, from left to right; null for a proof of
// another length.
export function extended(oldSize, size, oldRoot, proof) {
  const parts = [];
  let next = 0;
  const take = () => {
    if (next >= proof.length) throw new RangeError('the proof is too short');
    return proof[next++];
  };
  const walk = (low, high, whole) => {
    if (high === oldSize) {
      parts.push(whole ? oldRoot : take());
      return [parts[0], parts[0]];
    }
    const middle = low + half(high - low);
    if (oldSize <= middle) {
      const [old, grown] = walk(low, middle, whole);
      return [old, node(grown, take())];
    }
    const [old, grown] = walk(middle, high, false);
    parts.unshift(take());
    return [node(parts[0], old), node(parts[0], grown)];
  };
  try {
    const [old, grown] = walk(0, size, true);
    return next === proof.length ? { old, grown, parts } : null;
  } catch {
    return null;
  }
}

// Slice is the end of a log: the leaves from an index on, behind the perfect subtrees of what is
// before.
export class Slice {
  constructor(first, parts, leaves) {
    Object.assign(this, { first, leaves, size: first + leaves.length, known: new Map() });
    let at = 0;
    const widths = [];
    for (let width = 2 ** 53; width >= 1; width /= 2) if (Math.floor(first / width) % 2 === 1) widths.push(width);
    this.whole = widths.length === parts.length;
    widths.forEach((width, i) => {
      this.known.set(`${at}-${at + width}`, parts[i]);
      at += width;
    });
  }

  // hash is that of the subtree over the leaves from low to high; undefined where that is not known.
  hash(low, high) {
    const name = `${low}-${high}`;
    const known = this.known.get(name);
    if (known) return known;
    if (low < this.first && high - low === 1) return undefined;
    let made;
    if (high - low === 1) {
      made = this.leaves[low - this.first];
    } else {
      const middle = low + half(high - low);
      const left = this.hash(low, middle);
      const right = this.hash(middle, high);
      if (!left || !right) return undefined;
      made = node(left, right);
    }
    this.known.set(name, made);
    return made;
  }

  root() {
    return this.whole ? this.hash(0, this.size) : undefined;
  }

  // path is the inclusion proof of a leaf, from its sibling up to below the root.
  path(leaf) {
    const proof = [];
    let low = 0;
    let high = this.size;
    while (high - low > 1) {
      const middle = low + half(high - low);
      if (leaf < middle) {
        proof.unshift(this.hash(middle, high));
        high = middle;
      } else {
        proof.unshift(this.hash(low, middle));
        low = middle;
      }
    }
    return proof;
  }
}

// included says whether an inclusion proof leads from a leaf's hash to the root.
export function included(leaf, size, hash, proof, root) {
  const sides = [];
  let low = 0;
  let high = size;
  while (high - low > 1) {
    const middle = low + half(high - low);
    sides.unshift(leaf < middle ? 'right' : 'left');
    if (leaf < middle) high = middle;
    else low = middle;
  }
  if (sides.length !== proof.length || proof.includes(undefined)) return false;
  const made = proof.reduce((at, sibling, i) => (sides[i] === 'right' ? node(at, sibling) : node(sibling, at)), hash);
  return equal(made, root);
}

// What the objects of a pack look like: exactly the members that are listed here.

import { fromBase64url } from './encoding.js';

// fits holds a value against a shape: an object of shapes, a list of one shape, a constant, or a
// function that says.
export function fits(value, shape) {
  if (typeof shape === 'function') return shape(value);
  if (Array.isArray(shape)) return Array.isArray(value) && value.every((element) => fits(element, shape[0]));
  if (shape !== null && typeof shape === 'object') {
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return false;
    const names = Object.keys(shape);
    return Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name) && fits(value[name], shape[name]));
  }
  return value === shape;
}

const maybe = (shape) => (value) => value === null || fits(value, shape);
const string = (value) => typeof value === 'string';
const filled = (value) => string(value) && value !== '';
const boolean = (value) => typeof value === 'boolean';
const object = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const whole = (value) => Number.isInteger(value) && value >= 0 && value <= 2 ** 53;
const raw = (size) => (value) => fromBase64url(value)?.length === size;
const id = (prefix) => (value) => string(value) && new RegExp(`^${prefix}_[0-7][0-9A-HJKMNP-TV-Z]{25}$`).test(value);

// time is RFC 3339 in UTC with milliseconds.
export function time(value) {
  if (!string(value) || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value)) return false;
  const at = new Date(value);
  return !Number.isNaN(at.getTime()) && at.toISOString() === value && value > '0001';
}

// impressions are ten-thousandths; null for a text that is no such decimal.
export function impressions(value) {
  const m = string(value) ? /^(0|[1-9][0-9]*)(?:\.([0-9]{0,3}[1-9]))?$/.exec(value) : null;
  return m && BigInt(m[1] + (m[2] ?? '').padEnd(4, '0'));
}

const made = (value) => {
  const n = impressions(value);
  return n !== null && n < 2n ** 63n;
};

const hash = raw(32);
const ref = { id: filled, kind: filled };

export const signature = { algorithm: 'ed25519', keyId: filled, value: raw(64) };

export const receipt = {
  correlationId: maybe(string), dwellMs: (v) => typeof v === 'number' && v >= 0 && v <= 2 ** 36, issuedAt: time, nonce: raw(16), receiptId: id('rcp'),
  renderedAt: time, spatialAnchorId: filled, spatialPlacementId: maybe(string), version: '1', witness: filled,
};

export const event = {
  actor: ref, at: time, data: object, eventId: id('evt'), privateCommitment: maybe(hash), subject: ref, tenantId: filled, type: filled, v: 1,
};

const completions = ['none', 'started', 'first_quartile', 'midpoint', 'third_quartile', 'complete'];

const day = (value) => time(`${value}T00:00:00.000Z`);

const delivery = {
  basisId: filled, gate: { ruleset: hash, version: filled },
  metering: {
    basis: filled, completion: (v) => completions.includes(v), impressions: (v) => made(v) && impressions(v) <= 100_000_000n,
    metered: boolean, quantityMs: whole, reason: filled, reasons: [filled],
  },
  receipt, rightId: filled, rightRevision: whole, signature, substrate: filled,
};

// isDelivery is for the data of an event delivery.recorded, which may name what repeats it.
export function isDelivery(data) {
  const { idempotency, identity, ...rest } = data;
  if (idempotency !== undefined && identity !== undefined) return false;
  return fits(rest, delivery) && (idempotency === undefined || hash(idempotency)) &&
    (identity === undefined || fits(identity, { hash }) || fits(identity, { hash, day }));
}

export const key = {
  algorithm: 'ed25519', keyId: filled, notAfter: maybe(time), notBefore: time, publicKey: raw(32), purpose: filled, revokedAt: maybe(time),
};

export const directory = { delegation: filled, issuedAt: time, keys: [key], signature, snapshotId: filled };

const counted = { impressions: made, meteringBasis: filled, quantityMs: whole, receipts: whole, rightId: filled };

const settlement = {
  lines: [{ ...counted, amount: filled, ruleId: filled, shares: [filled] }],
  rules: (v) => fits(v, [{ leaf: whole, rule: object }]) && v.length > 0,
  unrated: [{ ...counted, reason: filled }],
};

export const header = {
  checkpoint: filled, consistency: [hash], count: whole, directory, duplicates: [{ first: whole, leaf: whole }], firstIndex: whole,
  metering: [{ ...counted, basisId: filled, reason: filled, substrate: filled }],
  packId: id('ppk'), previous: maybe({ headerHash: hash, packId: id('ppk'), rootHash: hash, treeSize: whole }), rootHash: hash,
  sealedAt: time, settlement: (v) => fits(v, [settlement]) && v.length <= 1, signingKeyId: filled,
  tenantId: (v) => id('tnt')(v) || v === 'tnt_system', treeSize: whole, v: 1,
};

export const packObject = { entries: [filled], header, signature };

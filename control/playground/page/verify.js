// The verdicts on one proof pack. This code shares nothing with the service's own.

import { canonical } from './canonical.js';
import { verify } from './ed25519.js';
import { equal, fromBase64url, utf8 } from './encoding.js';
import { delivered, readEvent, receiptFault } from './entry.js';
import { isForeign, keyFault, openDirectory, receiptPurposes, sandboxPurpose } from './keys.js';
import { extended, included, leafHash, Slice } from './merkle.js';
import { openCheckpoint } from './note.js';
import { readPack, Unreadable } from './pack.js';
import { duplicatesAgree, meteringOf } from './totals.js';

// checks are what is checked, in this order. Each names what a reader gets from it.
export const checks = [
  ['format', 'The file is a proof pack, spelt exactly as one has to be'],
  ['directory', 'The key directory in the pack is signed, and agrees with itself'],
  ['key', 'The pack was signed by a key that is trusted, in the time when it may sign'],
  ['signature', 'The pack’s signature covers its header'],
  ['checkpoint', 'The checkpoint is signed for this log, size, root and second'],
  ['entries', 'Every entry is an event of this tenant, from before the seal'],
  ['witnesses', 'Every receipt is bound to the event around it'],
  ['receipts', 'Every receipt is signed (Ed25519 over RFC 8785 bytes)'],
  ['consistency', 'The log only grew since the pack before'],
  ['root', 'The entries make the Merkle root that was signed (RFC 6962)'],
  ['inclusion', 'Every entry has a proof that leads to that root'],
  ['duplicates', 'What repeats another delivery is listed, and nothing else'],
  ['metering', 'The metering rows are what the entries add up to'],
];

// Report collects verdicts: of each check the failures, with their codes and entries.
class Report {
  constructor() {
    this.failures = [];
    this.done = new Set();
  }

  fail(check, code, message, entry) {
    this.failures.push({ check, code, message, entry });
  }

  // is notes that a check was made, and what it failed with if it did.
  is(ok, check, code, message, entry) {
    this.done.add(check);
    if (!ok) this.fail(check, code, message, entry);
    return ok;
  }
}

// verifyPack judges a file. trust has root, a C2SP verifier key as readVerifier has it, or keys, as
// readKeyList has them; without either the pack's own directory is believed, which anybody can
// make. progress is called with how much is done, from 0 to 1.
export async function verifyPack(bytes, trust = {}, progress = () => {}) {
  const report = new Report();
  let pack;
  try {
    pack = readPack(bytes);
    report.is(true, 'format');
  } catch (err) {
    if (!(err instanceof Unreadable)) throw err;
    report.is(false, 'format', 'format.invalid', err.message);
    return finish(report, null, [], null, trust);
  }
  const { header } = pack;
  const { keys, key, sound } = await checkKeys(report, pack, trust);
  if (sound) await checkSeal(report, pack, key);
  const purposes = key === undefined ? Object.values(receiptPurposes) : [receiptPurposes[key.purpose]];
  const events = await checkEntries(report, pack, keys, purposes, progress);
  const tree = checkTree(report, pack);
  // What is altered, or not there, adds up to something else in any case.
  if (events.length === header.count && report.failures.every((f) => f.entry === undefined)) checkTotals(report, header, events);
  progress(1);
  return finish(report, pack, events, tree, trust, key);
}

function checkTotals(report, header, events) {
  report.is(duplicatesAgree(header, events), 'duplicates', 'duplicates.mismatch', 'The list of duplicates is not what the entries show.');
  report.is(canonical(meteringOf(header, events)) === canonical(header.metering), 'metering', 'metering.mismatch', 'The metering rows are not what the entries add up to.');
}

async function checkKeys(report, pack, trust) {
  const { header } = pack;
  const listed = await openDirectory(header.directory, trust.root ?? null);
  const foreign = listed === null && trust.root && (await isForeign(header.directory, trust.root));
  report.is(listed !== null, 'directory', foreign ? 'directory.foreign' : 'directory.invalid', foreign ? 'The keys are those of a service with another root key: give that one.' :
    trust.root ? 'The directory is not signed by a key that the root key has delegated to.' : 'The directory does not agree with itself.');
  const keys = trust.keys ?? listed;
  if (keys === null) return { keys };
  const key = keys.get(header.signingKeyId);
  const fault = keyFault(key, Object.keys(receiptPurposes), header.sealedAt, header.sealedAt) ?? besideFault(pack, key);
  report.is(fault === null, 'key', fault, keyMessage(fault, header.signingKeyId));
  return { keys, key, sound: key !== undefined && fault === null };
}

const keyMessages = {
  'key.unknown': 'is not among the keys that are trusted',
  'key.purpose': 'is not a key for packs',
  'key.outside_window': 'was not in force when the pack was sealed',
  'directory.expired': 'is in a directory that says nothing of the time when the pack was sealed: give a newer one',
  'key.revoked': 'is revoked',
  'key.mismatch': 'is another one than the key beside the pack',
};

const keyMessage = (fault, id) => `The key ${id} ${keyMessages[fault]}.`;

// besideFault holds the key that the sandbox answers with against the one that is trusted.
function besideFault({ beside, header }, key) {
  if (!beside) return null;
  const same = ['keyId', 'algorithm', 'publicKey', 'notBefore', 'purpose'].every((name) => beside[name] === key[name]);
  const end = 'listed' in key ? key.listed : key.notAfter; // the answer knows no delegation
  const ends = [[beside.notAfter, end], [beside.revokedAt, key.revokedAt]].every(([a, b]) => a === null || b === null || a === b);
  if (!same || !ends) return 'key.mismatch';
  if (beside.notAfter !== null && header.sealedAt >= beside.notAfter) return 'key.outside_window';
  return beside.revokedAt !== null && header.sealedAt >= beside.revokedAt ? 'key.outside_window' : null;
}

async function checkSeal(report, { header, headerText, signature }, key) {
  const publicKey = fromBase64url(key.publicKey);
  report.is(await verify(publicKey, fromBase64url(signature.value), utf8(headerText)), 'signature', 'signature.invalid', 'The signature is not that of this header: something in the header was changed.');
  const c = await openCheckpoint(header.checkpoint, key);
  const agrees = c !== null && c.origin === `muniment/${header.tenantId}` && c.size === header.treeSize && equal(c.root, fromBase64url(header.rootHash)) &&
    c.second === Math.floor(Date.parse(header.sealedAt) / 1000);
  report.is(agrees, 'checkpoint', 'checkpoint.mismatch', 'The checkpoint is not signed by the pack’s key, or speaks of another log, size, root or second.');
}

const entryMessages = {
  'entry.altered': 'is not the event that was written: its parts contradict each other, or its spelling was changed',
  'witness.mismatch': 'is not the event that its receipt was signed for',
  'tenant.mismatch': 'belongs to another tenant',
  'entry.after_seal': 'is from after the seal',
  'entry.repeated': 'has the id of another entry',
  'signature.invalid': 'has a receipt whose signature does not fit',
  'key.unknown': 'has a receipt by a key that is not trusted',
  'key.purpose': 'has a receipt by a key that is not for receipts of such a pack',
  'key.outside_window': 'has a receipt by a key that was not in force then',
  'directory.expired': 'has a receipt by a key in a directory that says nothing of that time',
  'entry.after_revocation': 'has a receipt by a key that was revoked before the pack was sealed',
};

// breath is how many entries are checked between two looks at the page.
const breath = 250;

async function checkEntries(report, pack, keys, purposes, progress) {
  const { header, entries } = pack;
  const ids = new Set();
  const events = [];
  const wrong = (i, check, code) => report.fail(check, code, `Entry ${i + 1} (leaf ${header.firstIndex + i}) ${entryMessages[code]}.`, i);
  for (const check of ['entries', 'witnesses', ...(keys ? ['receipts'] : [])]) report.done.add(check);
  for (let from = 0; from < entries.length; from += breath) {
    const read = entries.slice(from, from + breath).map(readEvent);
    await Promise.all(read.map(async ({ event, code }, n) => {
      const i = from + n;
      events[i] = event ?? null;
      if (code) wrong(i, code === 'witness.mismatch' ? 'witnesses' : 'entries', code);
      if (code) return;
      if (event.tenantId !== header.tenantId) wrong(i, 'entries', 'tenant.mismatch');
      if (event.at > header.sealedAt) wrong(i, 'entries', 'entry.after_seal');
      if (event.type !== delivered || !keys) return;
      const fault = await receiptFault(event.data.receipt, event.data.signature, keys, purposes, header.sealedAt);
      if (fault) wrong(i, 'receipts', fault === 'key.revoked' ? 'entry.after_revocation' : fault);
    }));
    read.forEach(({ event }, n) => {
      if (event && ids.has(event.eventId)) wrong(from + n, 'entries', 'entry.repeated');
      if (event) ids.add(event.eventId);
    });
    progress(Math.min(1, (from + breath) / entries.length) * 0.9);
    await new Promise((resume) => { setTimeout(resume); });
  }
  report.is(entries.length === header.count, 'entries', 'count.mismatch', `The file has ${entries.length} entries, and the header says ${header.count}.`);
  return events;
}

// checkTree returns the tree that the entries make, and checks that it is the one that was signed.
function checkTree(report, { header, entries }) {
  const root = fromBase64url(header.rootHash);
  const proof = header.consistency.map(fromBase64url);
  const leaves = entries.map((entry) => leafHash(utf8(entry)));
  let parts = [];
  let grew = proof.length === 0;
  if (header.previous) {
    const before = fromBase64url(header.previous.rootHash);
    const e = extended(header.firstIndex, header.treeSize, before, proof);
    grew = e !== null && equal(e.old, before) && equal(e.grown, root);
    parts = e?.parts ?? [];
  }
  report.is(grew, 'consistency', 'consistency.mismatch', 'The proof does not lead from the pack before to this one.');
  if (entries.length !== header.count) return null; // there is no tree of that size
  const tree = new Slice(header.firstIndex, parts, leaves);
  const made = tree.root();
  const same = made !== undefined && equal(made, root);
  report.is(same, 'root', 'root.mismatch', 'The entries make another root than the one that was signed: at least one of them was changed.');
  if (same) {
    const out = leaves.findIndex((leaf, i) => !included(header.firstIndex + i, header.treeSize, leaf, tree.path(header.firstIndex + i), root));
    report.is(out < 0, 'inclusion', 'inclusion.mismatch', `Entry ${out + 1} is not in the tree.`, out);
  }
  return same ? tree : null;
}

function finish(report, pack, events, tree, trust, key) {
  const verdicts = checks.map(([check, title]) => {
    const failures = report.failures.filter((f) => f.check === check);
    return { check, title, failures, state: failures.length > 0 ? 'failed' : report.done.has(check) ? 'passed' : 'skipped' };
  });
  const codes = new Set(report.failures.map((f) => f.code));
  const anchor = trust.root ? 'root' : trust.keys ? 'keys' : 'none';
  return { ok: codes.size === 0, codes, verdicts, failures: report.failures, pack, events, tree, anchor, sandbox: key?.purpose === sandboxPurpose };
}

// deliveriesOf counts the receipts that a result has looked at.
export const deliveriesOf = (result) => result.events.filter((event) => event?.type === delivered).length;

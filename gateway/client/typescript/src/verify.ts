// Verification of receipts and proofs without the service. The formats are those of the package
// comment of sealer.

import {
  canonical, fromBase64, fromBase64url, hasMembers, isName, isTenant, isWhole, joined, type Json, type JsonObject, malformed, millis, momentOf, parse,
  parseCanonical, same, sha256, signedBy, toBase64url, utf8, VerifyError,
} from './canonical.js';
import { type Key, Trust } from './directory.js';
import { keyHash, readCheckpoint, sealedSecond } from './note.js';
import type { Data } from './types.js';

export { Trust, VerifyError };

export type Receipt = Data<'observe-delivery'>['receipt'];
export type Signature = Data<'observe-delivery'>['signature'];

/** A receipt whose signature is genuine. */
export interface VerifiedReceipt {
  receipt: Receipt;
  keyId: string;
  /** It is of a tenant of the sandbox, and proves itself only. */
  sandbox: boolean;
  /**
   * The event around the receipt, if it was given beside it: tenant, right, substrate and metering, all
   * bound by the signature. Without it nothing but the receipt is proven.
   */
  event?: JsonObject;
}

/** An event that is in a tenant's log. */
export interface VerifiedProof {
  event: JsonObject;
  /** Of an event that is a delivery. */
  receipt?: Receipt;
  tenantId: string;
  leafIndex: number;
  treeSize: number;
  /** The second in which the checkpoint was sealed, in milliseconds since 1970. */
  sealedAt: number;
  sandbox: boolean;
}

const purposes: Record<string, string> = { proof_pack_signing: 'receipt_signing', sandbox_proof_signing: 'sandbox_proof_signing' };
const sandboxPurpose = 'sandbox_proof_signing';

/**
 * A receipt with its signature as verifyReceipt and muniment verify take them: what a caller of deliver
 * or deliverBatch keeps.
 */
export function receiptFile(delivered: { receipt: Receipt; signature: Signature }): string {
  return canonical({ receipt: delivered.receipt, signature: delivered.signature } as unknown as Json);
}

/** A proof, as Receipts.proof returns it, as a file for verifyProof and muniment verify. */
export function proofFile(proof: Data<'prove-receipt'>): string {
  return canonical({ event: proof.event, proof: proof.proof } as unknown as Json);
}

/**
 * Verifies a receipt without the service. The answer is JSON with the members receipt and signature, and
 * event if there is one: the data of an answer that has them, or the whole answer. What stands beside
 * these is compared with the event, and proves nothing where that is missing.
 *
 * A receipt of a key that was revoked is refused, as the thief of a key can write any time: verifyProof
 * accepts it under a checkpoint from before the revocation. It rejects with a VerifyError.
 */
export async function verifyReceipt(answer: string, trust: Trust): Promise<VerifiedReceipt> {
  const data = dataOf(parse(answer));
  if (!hasMembers(data, 'receipt', 'signature', 'substrate?', 'metering?', 'event?', 'position?', 'sealed?')) {
    throw malformed('it has no receipt with its signature, or more than an answer has');
  }
  const text = spelt(data.receipt!);
  const receipt = checkReceipt(data.receipt!);
  const { keyId, value } = checkSignature(data.signature!);
  const sandbox = trust.key(keyId)?.purpose === sandboxPurpose;
  const publicKey = trust.find(keyId, sandbox ? sandboxPurpose : 'receipt_signing', millis(receipt.issuedAt));
  if (!(await signedBy(publicKey, value, utf8(text)))) throw new VerifyError('signature.invalid', `receipt ${receipt.receiptId} by key ${keyId}`);
  const verified: VerifiedReceipt = { receipt: receipt as unknown as Receipt, keyId, sandbox };
  if (data.event === undefined) return verified;
  const event = await checkDelivery(spelt(data.event));
  if (canonical(event.data.receipt!) !== text || canonical(event.data.signature!) !== canonical(data.signature!)) {
    throw new VerifyError('entry.altered', 'the event is of another receipt');
  }
  for (const name of ['substrate', 'metering']) {
    if (data[name] !== undefined && spelt(data[name]) !== canonical(event.data[name]!)) throw new VerifyError('entry.altered', `the event states another ${name}`);
  }
  return { ...verified, event };
}

/** Takes the data out of an answer. */
function dataOf(v: Json): Json {
  if (typeof v !== 'object' || v === null || Array.isArray(v) || !('ok' in v || 'data' in v)) return v;
  if (!hasMembers(v, 'ok', 'data', 'contractVersion') || v.ok !== true || v.contractVersion !== 'v1.0') throw malformed('it is the answer to a refused request, or none of the service');
  return v.data!;
}

function spelt(v: Json): string {
  try {
    return canonical(v);
  } catch (err) {
    throw err instanceof VerifyError ? err : malformed((err as Error).message);
  }
}

function checkSignature(v: Json): { keyId: string; value: Uint8Array } {
  const value = hasMembers(v, 'algorithm', 'keyId', 'value') && v.algorithm === 'ed25519' && isName(v.keyId) ? fromBase64url(v.value, 64) : undefined;
  if (!value) throw malformed('the signature is malformed');
  return { keyId: String((v as JsonObject).keyId), value };
}

const optional = (v: Json | undefined) => v === null || typeof v === 'string';

/** Checks the form of a receipt and what it says twice. */
function checkReceipt(r: Json): JsonObject {
  const fits = hasMembers(r, 'correlationId', 'dwellMs', 'issuedAt', 'nonce', 'receiptId', 'renderedAt', 'spatialAnchorId', 'spatialPlacementId', 'version', 'witness')
    && optional(r.correlationId) && optional(r.spatialPlacementId) && optional(r.witness) && isName(r.spatialAnchorId) && r.version === '1'
    && typeof r.dwellMs === 'number' && r.dwellMs >= 0 && r.dwellMs <= 2 ** 36 && fromBase64url(r.nonce, 16) !== undefined
    && millis(r.renderedAt) <= millis(r.issuedAt) && momentOf(r.receiptId, 'rcp_') === millis(r.issuedAt);
  if (!fits) throw malformed('the receipt is malformed');
  return r;
}

interface DeliveryEvent extends JsonObject {
  data: JsonObject;
}

const altered = (what: string) => new VerifyError('entry.altered', what);
const isHash = (v: Json | undefined) => fromBase64url(v, 32) !== undefined;
const isRef = (v: Json | undefined) => hasMembers(v, 'id', 'kind') && isName(v.id) && isName(v.kind);

/** Checks the form of an event, and returns it. */
function checkEvent(text: string): DeliveryEvent {
  let e: Json;
  try {
    e = parseCanonical(text);
  } catch (err) {
    throw altered((err as Error).message);
  }
  const fits = hasMembers(e, 'actor', 'at', 'data', 'eventId', 'privateCommitment', 'subject', 'tenantId', 'type', 'v')
    && isRef(e.actor) && isRef(e.subject) && (e.privateCommitment === null || isHash(e.privateCommitment)) && isTenant(e.tenantId) && isName(e.type) && e.v === 1
    && momentOf(e.eventId, 'evt_') === millis(e.at) && typeof e.data === 'object' && e.data !== null && !Array.isArray(e.data) && utf8(text).length <= 1 << 20;
  if (!fits) throw altered('the event is malformed');
  return e as DeliveryEvent;
}

/** Checks all of a delivery that can be checked without a key. */
async function checkDelivery(text: string): Promise<DeliveryEvent> {
  const e = checkEvent(text);
  const d = e.data;
  const fits = e.type === 'delivery.recorded'
    && hasMembers(d, 'basisId', 'gate', 'idempotency?', 'identity?', 'metering', 'receipt', 'rightId', 'rightRevision', 'signature', 'substrate')
    && hasMembers(d.gate, 'ruleset', 'version') && isName(d.gate.ruleset) && isName(d.gate.version) && [d.basisId, d.rightId, d.substrate].every(isName)
    && isWhole(d.rightRevision) && (d.idempotency === undefined || isHash(d.idempotency) && d.identity === undefined) && isIdentity(d.identity);
  if (!fits) throw altered('the event is no delivery');
  let receipt: JsonObject;
  try {
    receipt = checkReceipt(d.receipt!);
    checkSignature(d.signature!);
  } catch (err) {
    throw altered((err as Error).message);
  }
  const { receipt: _, signature: __, ...rest } = d;
  const hash = toBase64url(await sha256(utf8(canonical({ ...e, data: rest }))));
  const [, node, bound] = /^edge:(.+):([^:]*)$/s.exec(String(receipt.witness)) ?? [];
  if (node === undefined || bound !== hash) throw new VerifyError('witness.mismatch', 'the receipt is of another event');
  const subject = e.subject as JsonObject;
  if (String(e.eventId).slice(4) !== String(receipt.receiptId).slice(4) || subject.kind !== 'right' || subject.id !== d.rightId || !isMetering(d.metering!, Number(receipt.dwellMs))) {
    throw altered('the event contradicts itself');
  }
  return e;
}

function isIdentity(v: Json | undefined): boolean {
  if (v === undefined) return true;
  if (!hasMembers(v, 'day?', 'hash') || !isHash(v.hash)) return false;
  return v.day === undefined || !Number.isNaN(millis(`${String(v.day)}T00:00:00.000Z`));
}

const completions = ['none', 'started', 'first_quartile', 'midpoint', 'third_quartile', 'complete'];

function isMetering(m: Json, dwellMs: number): boolean {
  if (!hasMembers(m, 'basis', 'completion', 'impressions', 'metered', 'quantityMs', 'reason', 'reasons')) return false;
  if (!isName(m.basis) || !completions.includes(String(m.completion)) || !Array.isArray(m.reasons) || !m.reasons.every(isName) || !isWhole(m.quantityMs)) return false;
  if (typeof m.impressions !== 'string' || !/^(0|[1-9]\d*)(\.\d{0,3}[1-9])?$/.test(m.impressions) || Number(m.impressions) > 10_000) return false;
  if (m.metered === true) return m.reason === 'METERED' && m.reasons.length === 0 && m.quantityMs === Math.floor(dwellMs) && m.impressions !== '0';
  return m.metered === false && m.reason !== 'METERED' && m.reasons.length > 0 && m.reasons[0] === m.reason && m.quantityMs === 0 && m.impressions === '0';
}

/**
 * Verifies, without the service, that an event is in a tenant's log: an answer of /v1/receipts/{id}/proof
 * as it came, its data, or what proofFile makes of it. Where the event is a delivery, its receipt is
 * verified as well. It rejects with a VerifyError.
 *
 * It proves what stood in the log when the checkpoint was sealed, and trusts the signer of that. That
 * two callers were shown one log is what muniment verify and witnesses of the log are for.
 */
export async function verifyProof(answer: string, trust: Trust): Promise<VerifiedProof> {
  const { event, index, hashes, note } = readProof(answer);
  const checkpoint = readCheckpoint(note);
  const signer = await signerOf(checkpoint.origin, checkpoint.note.signatures[0]!.value, trust);
  const second = await sealedSecond(checkpoint, signer.publicKey) * 1000;
  // The second is cut, and may so be just before the key's window.
  trust.find(signer.keyId, signer.purpose, Math.floor(signer.notBefore / 1000) * 1000 === second ? signer.notBefore : second);
  const root = await rootOf(index, checkpoint.size, await sha256(Uint8Array.of(0), utf8(event)), hashes);
  if (!root || !same(root, checkpoint.root)) throw new VerifyError('inclusion.mismatch', `the event is not leaf ${index} of ${checkpoint.size}`);
  const sealedBy = second + 999;
  const isDelivery = checkEvent(event).type === 'delivery.recorded';
  const e = isDelivery ? await checkDelivery(event) : checkEvent(event);
  const receipt = e.data.receipt as JsonObject;
  if (isDelivery) {
    const { keyId, value } = checkSignature(e.data.signature!);
    const publicKey = trust.find(keyId, purposes[signer.purpose]!, millis(receipt.issuedAt), sealedBy);
    if (!(await signedBy(publicKey, value, utf8(canonical(receipt))))) throw new VerifyError('signature.invalid', `receipt ${String(receipt.receiptId)} by key ${keyId}`);
  }
  if (millis(e.at) > sealedBy) throw new VerifyError('entry.after_seal', 'the event is younger than the checkpoint');
  if (`muniment/${String(e.tenantId)}` !== checkpoint.origin) throw new VerifyError('tenant.mismatch', 'the event is of another tenant');
  return {
    event: e, ...(isDelivery ? { receipt: receipt as unknown as Receipt } : {}), tenantId: String(e.tenantId), leafIndex: index, treeSize: checkpoint.size,
    sealedAt: second, sandbox: signer.purpose === sandboxPurpose,
  };
}

const answerStart = '{"ok":true,"data":';
const answerEnd = ',"contractVersion":"v1.0"}';

/** Reads an event and its C2SP tlog-proof, whose spelling is fixed: the event is the leaf, byte for byte. */
function readProof(answer: string): { event: string; index: number; hashes: Uint8Array[]; note: string } {
  let text = answer.replace(/\n$/, '');
  if (text.startsWith(answerStart) && text.endsWith(answerEnd)) text = text.slice(answerStart.length, -answerEnd.length);
  const at = text.lastIndexOf(',"proof":"'); // which no JSON string holds: its quotes have a backslash before them
  const event = text.slice('{"event":'.length, at);
  if (at < 0 || !text.startsWith('{"event":{') || !text.endsWith('"}')) throw malformed('it is no event with its proof');
  parse(event);
  const quoted = text.slice(at + ',"proof":'.length, -1);
  const proof = parse(quoted);
  if (typeof proof !== 'string' || canonical(proof) !== quoted) throw malformed('the proof is no text');
  const [, head = '', note] = /^(.*?)\n\n(.*)$/s.exec(proof) ?? [];
  const [title, place, ...lines] = head.split('\n');
  const index = /^index (0|[1-9]\d{0,15})$/.exec(place ?? '')?.[1];
  const hashes = lines.map((line) => fromBase64(line, 32));
  if (title !== 'c2sp.org/tlog-proof@v1' || index === undefined || note === undefined || hashes.length > 63 || !hashes.every((h) => h !== undefined)) {
    throw malformed('the proof is malformed');
  }
  return { event, index: Number(index), hashes: hashes as Uint8Array[], note };
}

/** The key that has signed a checkpoint, by its hash. */
async function signerOf(origin: string, signature: Uint8Array, trust: Trust): Promise<Key> {
  let code = 'key.unknown';
  for (const key of trust.all()) {
    if (!same(signature.slice(0, 4), await keyHash(origin, 1, key.publicKey))) continue;
    if (purposes[key.purpose] !== undefined) return key;
    code = 'key.purpose';
  }
  throw new VerifyError(code, `the checkpoint of ${origin} is signed by another key`);
}

/** The root that an RFC 6962 inclusion proof leads to; undefined if it has not as many hashes as it needs. */
async function rootOf(index: number, size: number, leaf: Uint8Array, hashes: Uint8Array[]): Promise<Uint8Array | undefined> {
  if (index >= size) return undefined;
  let hash = leaf;
  let [at, last] = [index, size - 1];
  for (const other of hashes) {
    if (last === 0) return undefined;
    if (at % 2 === 1 || at === last) {
      hash = await sha256(Uint8Array.of(1), joined(other, hash));
      while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, Math.floor(last / 2)];
    } else {
      hash = await sha256(Uint8Array.of(1), joined(hash, other));
    }
    [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
  }
  return last === 0 ? hash : undefined;
}

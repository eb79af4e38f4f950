import { fromBase64, joined, signedBy, utf8 } from './canonical.js';
import type { Trust } from './directory.js';
import { readObject } from './error.js';

/** How far a webhook's timestamp may be from now. */
export const webhookToleranceMs = 5 * 60_000;

/** What the requests of a webhook are verified by: `secrets`, `trust`, or both. */
export interface WebhookKeys {
  /**
   * Secrets of the webhook, as whsec_…: the current one and, for a day after a rotation, the one before.
   * For signatures of the kind v1.
   */
  secrets?: string[];
  /**
   * Has the service's key, for signatures of the kind v1a. That key signs for all webhooks of all
   * tenants: give webhookId, or compare that of the message.
   */
  trust?: Trust;
  /** Refuses the messages of all other webhooks. */
  webhookId?: string;
}

/** A request to a webhook that is genuine. */
export interface WebhookMessage {
  /** Of the delivery, the same in each attempt: by it a receiver knows what it has had before. */
  id: string;
  /** Of the event. */
  type: string;
  timestamp: string;
  tenantId: string;
  webhookId: string;
  events: unknown[];
}

/** A request to a webhook is not genuine, or too old. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError';
}

const refuse = (why: string) => new WebhookError(`the request is not the service's: ${why}`);

/** The header of a request: of fetch, of node:http, or an object with lower-case names. */
export type RequestHeaders = Headers | Record<string, string | string[] | undefined>;

/**
 * Verifies a request to a webhook by the Standard Webhooks specification. The body is the request's as it
 * came in. An attacker can send a request again within webhookToleranceMs: receivers that mind remember
 * the id. It rejects with a WebhookError; with a TypeError if the keys are wrong.
 */
export async function verifyWebhook(keys: WebhookKeys, headers: RequestHeaders, body: Uint8Array | string, now = Date.now()): Promise<WebhookMessage> {
  const [id, stamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => headerOf(headers, name));
  if (!id || !stamp || !/^\d{1,11}$/.test(stamp)) throw refuse('it has no webhook-id or webhook-timestamp');
  const sent = Number(stamp) * 1000;
  if (Math.abs(now - sent) > webhookToleranceMs) throw refuse(`its timestamp is ${Math.round((now - sent) / 1000)} s from now`);
  const bytes = typeof body === 'string' ? utf8(body) : body;
  if (!(await isSigned(keys, joined(utf8(`${id}.${stamp}.`), bytes), signatures ?? '', sent))) throw refuse('no signature of it is by a known key');
  const m = readObject(new TextDecoder().decode(bytes));
  const data = m?.data as { event?: unknown; events?: unknown } | undefined;
  if (!m || typeof m.type !== 'string' || typeof m.timestamp !== 'string' || typeof m.tenantId !== 'string' || typeof m.webhookId !== 'string') {
    throw refuse("its body can't be read");
  }
  if (keys.webhookId !== undefined && m.webhookId !== keys.webhookId) throw refuse(`it is for the webhook ${JSON.stringify(m.webhookId)}`);
  const events = Array.isArray(data?.events) ? [...data.events] : [];
  if (data?.event !== undefined) events.push(data.event);
  return { id, type: m.type, timestamp: m.timestamp, tenantId: m.tenantId, webhookId: m.webhookId, events };
}

function headerOf(headers: RequestHeaders, name: string): string {
  const value = headers instanceof Headers ? headers.get(name) : headers[name];
  return (Array.isArray(value) ? value[0] : value) ?? '';
}

/** Whether one of the signatures is by one of the keys. How long it takes does not depend on how much of a signature is right. */
async function isSigned(keys: WebhookKeys, message: Uint8Array, signatures: string, sent: number): Promise<boolean> {
  const secrets = keys.secrets ?? [];
  if (secrets.length === 0 && !keys.trust) throw new TypeError('cannot verify a webhook: neither secrets nor trust is given');
  const known = await Promise.all(secrets.map(async (secret) => {
    const raw = secret.startsWith('whsec_') ? fromBase64(secret.slice(6)) : undefined;
    if (!raw || raw.length === 0) throw new TypeError('cannot verify a webhook: a secret is not of the form whsec_BASE64');
    return await crypto.subtle.importKey('raw', joined(raw), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  }));
  let ok = false;
  for (const signature of signatures.split(' ')) {
    const [kind, encoded] = [signature.slice(0, signature.indexOf(',')), signature.slice(signature.indexOf(',') + 1)];
    const value = fromBase64(encoded);
    if (!value) continue;
    if (kind === 'v1') {
      for (const key of known) ok = await crypto.subtle.verify('HMAC', key, joined(value), joined(message)) || ok;
    }
    if (kind === 'v1a' && keys.trust) ok = await signedByService(keys.trust, message, value, sent) || ok;
  }
  return ok;
}

async function signedByService(trust: Trust, message: Uint8Array, signature: Uint8Array, sent: number): Promise<boolean> {
  for (const { keyId } of trust.all()) {
    let publicKey: Uint8Array;
    try {
      publicKey = trust.find(keyId, 'webhook_signing', sent);
    } catch {
      continue;
    }
    if (signature.length === 64 && await signedBy(publicKey, signature, message)) return true;
  }
  return false;
}

import { at, type Caller } from './call.js';
import { MunimentError } from './error.js';
import { because } from './rights.js';
import type { Body, Data, Filter } from './types.js';

export type ApiKey = Data<'get-api-key'>['key'];
export type RefusedRequests = Data<'list-refused-requests'>['requests'][number];
export type NewApiKey = Body<'create-api-key'>;
export type Member = Data<'get-member'>['member'];
export type MemberInvitation = Body<'invite-member'>;
export type MemberRole = Body<'change-member'>;
export type Webhook = Data<'get-webhook'>['webhook'];
export type NewWebhook = Body<'create-webhook'>;
export type WebhookChange = Body<'change-webhook'>;
export type WebhookDelivery = Data<'test-webhook'>['delivery'];
export type DsarJob = Data<'get-dsar-job'>['job'];
export type NewDsarJob = Body<'create-dsar-job'>;
export type Erasure = Data<'get-erasure'>['erasure'];

/** The tenant's API keys. */
export class ApiKeys {
  constructor(private readonly c: Caller) {}

  /** Makes a key. Its scopes are at most those of the calling key. */
  create(key: NewApiKey): Promise<Data<'create-api-key'>> {
    return this.c.data({ method: 'POST', path: '/v1/api-keys', body: key });
  }

  /** Newest first. */
  list(filter?: Filter<'list-api-keys'>): AsyncGenerator<ApiKey> {
    return this.c.list('/v1/api-keys', 'keys', filter);
  }

  /** The key, and what it has made that works on when it ends. */
  get(keyId: string): Promise<Data<'get-api-key'>> {
    return this.c.data({ method: 'GET', path: at`/v1/api-keys/${keyId}` });
  }

  /** Makes a key that takes over; the old one works on for a while. */
  rotate(keyId: string, how: Body<'rotate-api-key'> = {}): Promise<Data<'rotate-api-key'>> {
    return this.c.data({ method: 'POST', path: at`/v1/api-keys/${keyId}/rotate`, body: how });
  }

  /**
   * Ends a key. The result says whether every node knows, and names keys that were made with it and
   * still work.
   */
  revoke(keyId: string): Promise<Data<'revoke-api-key'>> {
    return this.c.data({ method: 'DELETE', path: at`/v1/api-keys/${keyId}` });
  }

  /** Refused requests of the last 24 hours with the tenant's keys, the last first. */
  refused(filter?: Filter<'list-refused-requests'>): AsyncGenerator<RefusedRequests> {
    return this.c.list('/v1/requests', 'requests', filter);
  }
}

/** The persons who may sign in to the tenant's console. */
export class Members {
  constructor(private readonly c: Caller) {}

  /** Has a mail sent that says so. The caller holds all scopes of the role. */
  invite(invitation: MemberInvitation): Promise<Member> {
    return this.c.record({ method: 'POST', path: '/v1/members', body: invitation }, 'member');
  }

  /** Newest first. */
  list(filter?: Filter<'list-members'>): AsyncGenerator<Member> {
    return this.c.list('/v1/members', 'members', filter);
  }

  get(memberId: string): Promise<Member> {
    return this.c.record({ method: 'GET', path: at`/v1/members/${memberId}` }, 'member');
  }

  /** Gives another role, which holds from the next request of the member's sessions on. */
  change(memberId: string, role: MemberRole): Promise<Member> {
    return this.c.record({ method: 'PATCH', path: at`/v1/members/${memberId}`, body: role }, 'member');
  }

  /** Ends the member's sessions at once, and for good. The last owner stays. */
  remove(memberId: string): Promise<Member> {
    return this.c.record({ method: 'DELETE', path: at`/v1/members/${memberId}` }, 'member');
  }
}

/** URLs to which events are sent. verifyWebhook verifies what they receive. */
export class Webhooks {
  constructor(private readonly c: Caller) {}

  /** Makes a webhook. Its secret is in the result, and nowhere else. */
  create(webhook: NewWebhook): Promise<Data<'create-webhook'>> {
    return this.c.data({ method: 'POST', path: '/v1/webhooks', body: webhook });
  }

  /** Newest first. */
  list(filter?: Filter<'list-webhooks'>): AsyncGenerator<Webhook> {
    return this.c.list('/v1/webhooks', 'webhooks', filter);
  }

  get(webhookId: string): Promise<Webhook> {
    return this.c.record({ method: 'GET', path: at`/v1/webhooks/${webhookId}` }, 'webhook');
  }

  change(webhookId: string, change: WebhookChange): Promise<Webhook> {
    return this.c.record({ method: 'PATCH', path: at`/v1/webhooks/${webhookId}`, body: change }, 'webhook');
  }

  /** Ends a webhook. */
  delete(webhookId: string): Promise<Webhook> {
    return this.c.record({ method: 'DELETE', path: at`/v1/webhooks/${webhookId}` }, 'webhook');
  }

  /** Makes a new secret; the old one signs beside it for a day. */
  rotateSecret(webhookId: string): Promise<Data<'rotate-webhook-secret'>> {
    return this.c.data({ method: 'POST', path: at`/v1/webhooks/${webhookId}/rotate-secret` });
  }

  /** Sends an event of its own to a webhook. */
  test(webhookId: string): Promise<WebhookDelivery> {
    return this.c.record({ method: 'POST', path: at`/v1/webhooks/${webhookId}/test` }, 'delivery');
  }

  /** What was sent to a webhook, newest first. */
  deliveries(webhookId: string, filter?: Filter<'list-webhook-deliveries'>): AsyncGenerator<WebhookDelivery> {
    return this.c.list(at`/v1/webhooks/${webhookId}/deliveries`, 'deliveries', filter);
  }

  /** Sends a delivery again, under its id. */
  resend(webhookId: string, deliveryId: string): Promise<WebhookDelivery> {
    return this.c.record({ method: 'POST', path: at`/v1/webhooks/${webhookId}/deliveries/${deliveryId}/resend` }, 'delivery');
  }

  /** Sends what a webhook has not received of a stretch of time. */
  recover(webhookId: string, what: Body<'recover-webhook'>): Promise<Data<'recover-webhook'>['recovery']> {
    return this.c.record({ method: 'POST', path: at`/v1/webhooks/${webhookId}/recover`, body: what }, 'recovery');
  }
}

/** Exports of what is stored about a person, or of a tenant. */
export class Dsar {
  constructor(private readonly c: Caller) {}

  /** Makes a job. Nothing happens until run. A tenant has at most five active ones. */
  create(job: NewDsarJob): Promise<Data<'create-dsar-job'>> {
    return this.c.data({ method: 'POST', path: '/v1/compliance/dsar', body: job });
  }

  /** Newest first. */
  list(filter?: Filter<'list-dsar-jobs'>): AsyncGenerator<DsarJob> {
    return this.c.list('/v1/compliance/dsar', 'jobs', filter);
  }

  get(jobId: string): Promise<DsarJob> {
    return this.c.record({ method: 'GET', path: at`/v1/compliance/dsar/${jobId}` }, 'job');
  }

  /** Queues a job. It is READY or FAILED some time later. */
  run(jobId: string): Promise<DsarJob> {
    return this.c.record({ method: 'POST', path: at`/v1/compliance/dsar/${jobId}/run` }, 'job');
  }

  /** Ends a job that no worker has begun; later it is a conflict. */
  cancel(jobId: string, reason?: string): Promise<DsarJob> {
    return this.c.record({ method: 'POST', path: at`/v1/compliance/dsar/${jobId}/cancel`, body: because(reason) }, 'job');
  }

  /**
   * A link to the bundle of a job that is READY. It works without a key, for 15 minutes and until the
   * bundle was downloaded whole.
   */
  link(jobId: string): Promise<Data<'get-dsar-bundle'>> {
    return this.c.data({ method: 'GET', path: at`/v1/compliance/dsar/${jobId}/bundle` });
  }

  /** The bundle of a job that is READY, a zip file for muniment verify. */
  async bundle(jobId: string): Promise<ReadableStream<Uint8Array>> {
    const { bundleUrl } = await this.link(jobId);
    // The key goes to no other host than that of the client, whatever host the link has.
    const token = /\/downloads\/([^/?#]+)$/.exec(bundleUrl)?.[1];
    if (token === undefined) {
      throw new MunimentError({ operation: `GET ${at`/v1/compliance/dsar/${jobId}/bundle`}`, kind: 'foreign', status: 200, message: 'its link leads to no download' });
    }
    return await this.c.stream(at`/downloads/${decodeURIComponent(token)}`);
  }
}

/** Erasures of persons. */
export class Erasures {
  constructor(private readonly c: Caller) {}

  /** Newest first. */
  list(filter?: Filter<'list-erasures'>): AsyncGenerator<Erasure> {
    return this.c.list('/v1/compliance/erasures', 'erasures', filter);
  }

  /** With its certificate once it is COMPLETED. */
  get(erasureId: string): Promise<Erasure> {
    return this.c.record({ method: 'GET', path: at`/v1/compliance/erasures/${erasureId}` }, 'erasure');
  }
}

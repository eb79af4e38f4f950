import { ApiKeys, Dsar, Erasures, Members, Webhooks } from './account.js';
import { Caller, type CallOptions, type Config } from './call.js';
import { deliver, type Delivered, deliverBatch, type Delivery, type Row, type RowResult } from './deliver.js';
import { unanswered } from './error.js';
import { Events, type HeldRow, Mappings, ProofPacks, Receipts, type RejectedPlay } from './evidence.js';
import { Bases, Challenges, Offers, Rights } from './rights.js';
import { Counterparties, Disputes, Metering, PayeeLinks, Payables, SettlementRules, Statements } from './settlement.js';
import type { Body, Data, Filter, Query } from './types.js';

/**
 * Calls one service with one API key.
 *
 * - A call that resolves was answered by the service. For a delivery that means that its receipt is
 *   durable.
 * - A call is made again only where that is safe: each POST carries an Idempotency-Key, by which the
 *   service knows a second attempt, and rows of a batch are known by their identity. A request that the
 *   service refuses for what is in it is not tried again.
 * - A call rejects with a MunimentError, unless nothing was sent: with a TypeError where an argument is
 *   wrong, with the signal's reason, or with what the function `key` has thrown.
 * - What does not come from the service, such as the error page of a proxy, is never taken for an
 *   answer of it.
 */
export class Client {
  readonly apiKeys: ApiKeys;
  readonly members: Members;
  readonly bases: Bases;
  readonly rights: Rights;
  readonly offers: Offers;
  readonly challenges: Challenges;
  readonly receipts: Receipts;
  readonly events: Events;
  readonly proofPacks: ProofPacks;
  readonly mappings: Mappings;
  readonly metering: Metering;
  readonly settlementRules: SettlementRules;
  readonly counterparties: Counterparties;
  readonly statements: Statements;
  readonly payables: Payables;
  readonly payeeLinks: PayeeLinks;
  readonly disputes: Disputes;
  readonly webhooks: Webhooks;
  readonly dsar: Dsar;
  readonly erasures: Erasures;
  /** Makes the calls. */
  readonly caller: Caller;

  /** Checks the configuration. Nothing is sent. */
  constructor(config: Config | Caller) {
    const c = config instanceof Caller ? config : new Caller(config);
    this.caller = c;
    this.apiKeys = new ApiKeys(c);
    this.members = new Members(c);
    this.bases = new Bases(c);
    this.rights = new Rights(c);
    this.offers = new Offers(c);
    this.challenges = new Challenges(c);
    this.receipts = new Receipts(c);
    this.events = new Events(c);
    this.proofPacks = new ProofPacks(c);
    this.mappings = new Mappings(c);
    this.metering = new Metering(c);
    this.settlementRules = new SettlementRules(c);
    this.counterparties = new Counterparties(c);
    this.statements = new Statements(c);
    this.payables = new Payables(c);
    this.payeeLinks = new PayeeLinks(c);
    this.disputes = new Disputes(c);
    this.webhooks = new Webhooks(c);
    this.dsar = new Dsar(c);
    this.erasures = new Erasures(c);
  }

  /** The same client with other options: a signal, a deadline, the Idempotency-Key of one change. */
  with(options: CallOptions): Client {
    return new Client(this.caller.with(options));
  }

  /** Which version of the service answers, and by which rules. It needs no key. */
  contract(): Promise<Data<'get-contract'>> {
    return this.caller.data({ method: 'GET', path: '/v1' });
  }

  /** The service's own word that it answers. It needs no key. */
  health(): Promise<Data<'get-health'>> {
    return this.caller.data({ method: 'GET', path: '/v1/healthz' });
  }

  /** The tenant of the key, its developer and the key itself. */
  tenant(): Promise<Data<'get-tenant'>> {
    return this.caller.data({ method: 'GET', path: '/v1/tenant' });
  }

  /**
   * Observes a delivery as of now, and returns its receipt, which is durable then.
   *
   * A delivery that the constraint gate refuses is a `precondition` with the violations, one on a right
   * that is not ACTIVE is a `conflict`. After an error whose outcome is `unknown` it may have been
   * recorded all the same: calling again with the idempotencyKey of the error does not record it twice.
   */
  deliver(delivery: Delivery): Promise<Delivered> {
    return deliver(this.caller, delivery);
  }

  /**
   * Delivers plays as of the time when they were shown, up to 30 days ago. Yields a result for each row,
   * in their order, as batches are answered; rows are read as far as the next batch needs them.
   *
   * A row that is rejected because a part of the service is away is sent again, as often as the
   * RetryPolicy says. Any other rejected row is no error of the call. After an error, the rows that no
   * result was yielded for may be sent again, as one that was recorded is a duplicate.
   */
  deliverBatch(rows: Iterable<Row> | AsyncIterable<Row>): AsyncGenerator<RowResult, void, undefined> {
    return deliverBatch(this.caller, rows);
  }

  /** Rows that wait for a mapping, or have waited, newest first. */
  held(filter?: Filter<'list-held-rows'>): AsyncGenerator<HeldRow> {
    return this.caller.list('/v1/delivery/held', 'held', filter);
  }

  /** The rejected plays of players that post by themselves, newest first. */
  rejected(): AsyncGenerator<RejectedPlay> {
    return this.caller.list('/v1/delivery/rejected', 'rejected');
  }

  /** Deletes rejected plays that were looked at, at most 5,000 at once. */
  dismissRejected(...ids: string[]): Promise<Data<'dismiss-rejected-plays'>> {
    return this.caller.data({ method: 'POST', path: '/v1/delivery/rejected/dismiss', body: { rejectedIds: ids } });
  }

  /** Makes a URL for a player that can only call one: each call of it with a new eid is a play. */
  newBeacon(beacon: Body<'create-beacon'>): Promise<Data<'create-beacon'>> {
    return this.caller.data({ method: 'POST', path: '/v1/delivery/beacons', body: beacon });
  }

  /** A page of what receipts are worth, by the rules as they are now. Its totals are over all lines. */
  settlement(query?: Query<'get-settlement'>): Promise<Data<'get-settlement'>> {
    return this.caller.data({ method: 'GET', path: '/v1/settlement', query });
  }

  /** Whether packs, warehouse and statements agree about what was rendered in a window. */
  reconciliation(window?: Query<'reconcile-settlement'>): Promise<Data<'reconcile-settlement'>> {
    return this.caller.data({ method: 'GET', path: '/v1/settlement/reconciliation', query: window });
  }

  /**
   * Every key that the service ever signed with, as Trust.of takes it. Fetch it again at times: it says
   * which keys were revoked.
   */
  async keyDirectory(): Promise<string> {
    const path = '/.well-known/muniment/keys.json';
    const file = await this.caller.stream(path);
    try {
      return await new Response(file).text();
    } catch (err) {
      throw unanswered(`GET ${path}`, err);
    }
  }
}

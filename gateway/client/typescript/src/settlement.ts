import { at, type Caller } from './call.js';
import type { Body, Data, Filter, Query } from './types.js';

export type MeteringRow = Data<'get-metering'>['rows'][number];
export type SettlementRule = Data<'get-settlement-rule'>['rule'];
export type NewSettlementRule = Body<'create-settlement-rule'>;
export type Counterparty = Data<'get-counterparty'>['counterparty'];
export type NewCounterparty = Body<'create-counterparty'>;
export type Statement = Data<'get-statement'>['statement'];
export type NewStatement = Body<'draft-statement'>;
export type Payable = Data<'get-payable'>['payable'];
export type PayeeLink = Data<'create-payee-link'>['link'];
export type Payout = Data<'list-payouts'>['payouts'][number];
export type Issuer = NonNullable<Data<'get-issuer'>['issuer']>;
export type Dispute = Data<'get-dispute'>['dispute'];
export type DisputeRecord = Data<'open-dispute'>['dispute'];
export type NewDispute = Body<'open-dispute'>;

/** Sums of what the gate decided about deliveries. */
export class Metering {
  constructor(private readonly c: Caller) {}

  /** A page of sums. Its totals are over all rows. */
  get(query?: Query<'get-metering'>): Promise<Data<'get-metering'>> {
    return this.c.data({ method: 'GET', path: '/v1/metering', query });
  }

  /** The sums of all pages. */
  rows(filter?: Filter<'get-metering'>): AsyncGenerator<MeteringRow> {
    return this.c.list('/v1/metering', 'rows', filter);
  }

  /** All sums, as a file. */
  file(format: 'csv' | 'ndjson', filter?: Filter<'get-metering'>): Promise<ReadableStream<Uint8Array>> {
    return this.c.stream('/v1/metering', { ...filter, format });
  }

  /** A page of how often rules have refused. */
  refusals(query?: Query<'get-refusals'>): Promise<Data<'get-refusals'>> {
    return this.c.data({ method: 'GET', path: '/v1/metering/refusals', query });
  }
}

/** What receipts are worth. */
export class SettlementRules {
  constructor(private readonly c: Caller) {}

  create(rule: NewSettlementRule): Promise<SettlementRule> {
    return this.c.record({ method: 'POST', path: '/v1/settlement/rules', body: rule }, 'rule');
  }

  /** Newest first. */
  list(filter?: Filter<'list-settlement-rules'>): AsyncGenerator<SettlementRule> {
    return this.c.list('/v1/settlement/rules', 'rules', filter);
  }

  get(ruleId: string): Promise<SettlementRule> {
    return this.c.record({ method: 'GET', path: at`/v1/settlement/rules/${ruleId}` }, 'rule');
  }

  /** Replaces a rule. */
  change(ruleId: string, rule: Body<'change-settlement-rule'>): Promise<SettlementRule> {
    return this.c.record({ method: 'PUT', path: at`/v1/settlement/rules/${ruleId}`, body: rule }, 'rule');
  }

  /** Ends a rule. */
  retire(ruleId: string): Promise<SettlementRule> {
    return this.c.record({ method: 'DELETE', path: at`/v1/settlement/rules/${ruleId}` }, 'rule');
  }

  /** What a rule would have changed between from and to, which is exclusive. Nothing is kept. */
  dryRun(rule: NewSettlementRule, from: string, to: string): Promise<Data<'dry-run-settlement-rule'>> {
    return this.c.data({ method: 'POST', path: '/v1/settlement/rules/dry-run', body: { rule, from, to } });
  }
}

/** Who is paid. */
export class Counterparties {
  constructor(private readonly c: Caller) {}

  create(counterparty: NewCounterparty): Promise<Counterparty> {
    return this.c.record({ method: 'POST', path: '/v1/settlement/counterparties', body: counterparty }, 'counterparty');
  }

  /** Newest first. */
  list(filter?: Filter<'list-counterparties'>): AsyncGenerator<Counterparty> {
    return this.c.list('/v1/settlement/counterparties', 'counterparties', filter);
  }

  get(counterpartyId: string): Promise<Counterparty> {
    return this.c.record({ method: 'GET', path: at`/v1/settlement/counterparties/${counterpartyId}` }, 'counterparty');
  }

  /** Replaces a counterparty. */
  change(counterpartyId: string, counterparty: Body<'change-counterparty'>): Promise<Counterparty> {
    return this.c.record({ method: 'PUT', path: at`/v1/settlement/counterparties/${counterpartyId}`, body: counterparty }, 'counterparty');
  }

  /** Ends a counterparty: new rules can't name it. */
  deactivate(counterpartyId: string): Promise<Counterparty> {
    return this.c.record({ method: 'DELETE', path: at`/v1/settlement/counterparties/${counterpartyId}` }, 'counterparty');
  }
}

/** What is owed for periods. */
export class Statements {
  constructor(private readonly c: Caller) {}

  draft(statement: NewStatement): Promise<Statement> {
    return this.c.record({ method: 'POST', path: '/v1/settlement/statements', body: statement }, 'statement');
  }

  /** Newest first. */
  list(filter?: Filter<'list-statements'>): AsyncGenerator<Statement> {
    return this.c.list('/v1/settlement/statements', 'statements', filter);
  }

  /** A statement and what is signed of it. */
  get(statementId: string): Promise<Data<'get-statement'>> {
    return this.c.data({ method: 'GET', path: at`/v1/settlement/statements/${statementId}` });
  }

  /** A statement as a file: signed is what muniment verify takes. */
  file(statementId: string, format: 'csv' | 'html' | 'pdf' | 'signed', query?: Query<'get-statement'>): Promise<ReadableStream<Uint8Array>> {
    return this.c.stream(at`/v1/settlement/statements/${statementId}`, { ...query, format });
  }

  /** Throws a draft away. */
  discard(statementId: string): Promise<Statement> {
    return this.c.record({ method: 'DELETE', path: at`/v1/settlement/statements/${statementId}` }, 'statement');
  }

  /** Signs a draft. It is frozen from then on. */
  issue(statementId: string): Promise<Statement> {
    return this.c.record({ method: 'POST', path: at`/v1/settlement/statements/${statementId}/issue` }, 'statement');
  }

  /** Drafts a correction of an issued statement. */
  correct(statementId: string): Promise<Statement> {
    return this.c.record({ method: 'POST', path: at`/v1/settlement/statements/${statementId}/correct` }, 'statement');
  }

  /** Takes an issued statement back, with its corrections: its period can be stated again. */
  void(statementId: string, reason: string): Promise<Statement> {
    return this.c.record({ method: 'POST', path: at`/v1/settlement/statements/${statementId}/void`, body: { reason } }, 'statement');
  }

  /** Notes a payment of a statement, or takes payments back. It is SETTLED once nothing is open, ISSUED again once something is. */
  settle(statementId: string, payment: Body<'settle-statement'>): Promise<Statement> {
    return this.c.record({ method: 'POST', path: at`/v1/settlement/statements/${statementId}/settle`, body: payment }, 'statement');
  }

  /** The receipts behind the lines of a statement. */
  receipts(statementId: string, filter?: Filter<'list-statement-receipts'>): AsyncGenerator<Data<'list-statement-receipts'>['receipts'][number]> {
    return this.c.list(at`/v1/settlement/statements/${statementId}/receipts`, 'receipts', filter);
  }
}

/** Links by which payees read their parts of statements, without an account. */
export class PayeeLinks {
  constructor(private readonly c: Caller) {}

  /** The url is returned this once: anyone who has it can read the page. */
  create(link: Body<'create-payee-link'>): Promise<Data<'create-payee-link'>> {
    return this.c.data({ method: 'POST', path: '/v1/settlement/payee-links', body: link });
  }

  /** Newest first. */
  list(filter?: Filter<'list-payee-links'>): AsyncGenerator<PayeeLink> {
    return this.c.list('/v1/settlement/payee-links', 'links', filter);
  }

  /** Ends a link for good. */
  revoke(payeeLinkId: string): Promise<PayeeLink> {
    return this.c.record({ method: 'DELETE', path: at`/v1/settlement/payee-links/${payeeLinkId}` }, 'link');
  }
}

/** What payees are due. */
export class Payables {
  constructor(private readonly c: Caller) {}

  /** Newest first. */
  list(filter?: Filter<'list-payables'>): AsyncGenerator<Payable> {
    return this.c.list('/v1/settlement/payables', 'payables', filter);
  }

  get(payableId: string): Promise<Payable> {
    return this.c.record({ method: 'GET', path: at`/v1/settlement/payables/${payableId}` }, 'payable');
  }

  /** What is to be paid, the longest due first. */
  payouts(filter?: Filter<'list-payouts'>): AsyncGenerator<Payout> {
    return this.c.list('/v1/settlement/payouts', 'payouts', filter);
  }

  /** All of it as a CSV file for a payment system. */
  payoutFile(query?: Query<'list-payouts'>): Promise<ReadableStream<Uint8Array>> {
    return this.c.stream('/v1/settlement/payouts', { ...query, format: 'csv' });
  }

  /** The organisation that issues statements; undefined until it is set. */
  async issuer(): Promise<Issuer | undefined> {
    return (await this.c.data<Data<'get-issuer'>>({ method: 'GET', path: '/v1/settlement/issuer' })).issuer;
  }

  setIssuer(issuer: Body<'set-issuer'>): Promise<Issuer> {
    return this.c.record({ method: 'PUT', path: '/v1/settlement/issuer', body: issuer }, 'issuer');
  }
}

/** Disputes contest receipts. They are held out of settlement until it is resolved. */
export class Disputes {
  constructor(private readonly c: Caller) {}

  open(dispute: NewDispute): Promise<DisputeRecord> {
    return this.c.record({ method: 'POST', path: '/v1/disputes', body: dispute }, 'dispute');
  }

  /** Newest first. */
  list(filter?: Filter<'list-disputes'>): AsyncGenerator<Data<'list-disputes'>['disputes'][number]> {
    return this.c.list('/v1/disputes', 'disputes', filter);
  }

  /** A dispute, and what it holds out of settlement; with plays, also what each of its receipts is worth. */
  get(disputeId: string, query?: Query<'get-dispute'>): Promise<Dispute> {
    return this.c.record({ method: 'GET', path: at`/v1/disputes/${disputeId}`, query }, 'dispute');
  }

  /** Notes that a dispute is looked into. */
  investigate(disputeId: string): Promise<DisputeRecord> {
    return this.c.record({ method: 'POST', path: at`/v1/disputes/${disputeId}/investigate` }, 'dispute');
  }

  /** Answers a dispute. */
  respond(disputeId: string, answer: Body<'respond-to-dispute'>): Promise<DisputeRecord> {
    return this.c.record({ method: 'POST', path: at`/v1/disputes/${disputeId}/respond`, body: answer }, 'dispute');
  }

  /** Decides a dispute. */
  resolve(disputeId: string, how: Body<'resolve-dispute'>): Promise<DisputeRecord> {
    return this.c.record({ method: 'POST', path: at`/v1/disputes/${disputeId}/resolve`, body: how }, 'dispute');
  }
}

import { at, type Caller } from './call.js';
import type { Body, Data, Filter, Query } from './types.js';

export type FoundReceipt = Data<'list-receipts'>['receipts'][number];
export type LoggedReceipt = Data<'get-receipt'>;
export type LoggedEvent = Data<'list-events'>['events'][number];
export type ProofPack = Data<'list-proof-packs'>['packs'][number];
export type SealedPacks = Data<'seal-proof-packs'>;
export type Mapping = Data<'create-mapping'>['mapping'];
export type HeldRow = Data<'list-held-rows'>['held'][number];
export type RejectedPlay = Data<'list-rejected-plays'>['rejected'][number];

/** What deliveries were answered with. */
export class Receipts {
  constructor(private readonly c: Caller) {}

  /** Newest first. The service finds a receipt shortly after it was issued, and not at once. */
  list(filter?: Filter<'list-receipts'>): AsyncGenerator<FoundReceipt> {
    return this.c.list('/v1/receipts', 'receipts', filter);
  }

  /** All receipts, as a file with a row each and the columns that analysts read. */
  file(format: 'csv' | 'ndjson' | 'parquet', filter?: Filter<'list-receipts'>): Promise<ReadableStream<Uint8Array>> {
    return this.c.stream('/v1/receipts', { ...filter, format });
  }

  get(receiptId: string): Promise<LoggedReceipt> {
    return this.c.data({ method: 'GET', path: at`/v1/receipts/${receiptId}` });
  }

  /**
   * The proof that a receipt is in the tenant's log, under the checkpoint of the pack that holds it, or
   * of the latest one. proofFile makes a file of it, which verifyProof and muniment verify take. A
   * receipt that is not sealed yet is a conflict.
   */
  proof(receiptId: string, checkpoint: 'pack' | 'latest' = 'pack'): Promise<Data<'prove-receipt'>> {
    return this.c.data({ method: 'GET', path: at`/v1/receipts/${receiptId}/proof`, query: { checkpoint } });
  }
}

/** All that has happened to a tenant. */
export class Events {
  constructor(private readonly c: Caller) {}

  /** Newest first, unless the filter says otherwise. */
  list(filter?: Filter<'list-events'>): AsyncGenerator<LoggedEvent> {
    return this.c.list('/v1/events', 'events', filter);
  }

  /** A signed run of events, for muniment verify. */
  export(range?: Query<'export-events'>): Promise<ReadableStream<Uint8Array>> {
    return this.c.stream('/v1/events/export', range);
  }
}

/** Signed files of events. */
export class ProofPacks {
  constructor(private readonly c: Caller) {}

  /**
   * Seals every event that was acknowledged before the call, in as many steps as it takes, and returns
   * the headers of all packs, oldest first. Where nothing was new that is the last pack. What is still
   * pending, in the last step, is in no pack. An error leaves the packs that were sealed.
   */
  async seal(): Promise<SealedPacks> {
    const packs: SealedPacks['packs'] = [];
    let step: SealedPacks | undefined;
    do {
      step = await this.sealStep(step?.upTo);
      packs.push(...step.packs);
    } while (step.more);
    return { ...step, packs };
  }

  /** One step of seal: upTo is that of the step before. */
  sealStep(upTo?: string): Promise<SealedPacks> {
    return this.c.data({ method: 'POST', path: '/v1/proof-packs/seal', body: upTo ? { upTo } : {} });
  }

  /** Newest last. */
  list(filter?: Filter<'list-proof-packs'>): AsyncGenerator<ProofPack> {
    return this.c.list('/v1/proof-packs', 'packs', filter);
  }

  /** A pack without its entries. */
  get(packId: string): Promise<Data<'get-proof-pack'>> {
    return this.c.data({ method: 'GET', path: at`/v1/proof-packs/${packId}` });
  }

  /** A pack, byte for byte as it was sealed. */
  bundle(packId: string): Promise<ReadableStream<Uint8Array>> {
    return this.c.stream(at`/v1/proof-packs/${packId}/bundle`);
  }

  /** The newest checkpoint of the tenant's log, a C2SP signed note. */
  checkpoint(): Promise<string> {
    return this.c.record({ method: 'GET', path: '/v1/proof-packs/checkpoint' }, 'checkpoint');
  }

  /** Proves that the log of a pack only added to that of an earlier one. */
  consistency(packId: string, fromPackId: string): Promise<Data<'prove-consistency'>> {
    return this.c.data({ method: 'GET', path: at`/v1/proof-packs/${packId}/consistency`, query: { from: fromPackId } });
  }
}

/** What ids of vendors stand for. */
export class Mappings {
  constructor(private readonly c: Caller) {}

  create(mapping: Body<'create-mapping'>): Promise<Mapping> {
    return this.c.record({ method: 'POST', path: '/v1/delivery/mappings', body: mapping }, 'mapping');
  }

  /** Newest first. */
  list(filter?: Filter<'list-mappings'>): AsyncGenerator<Mapping> {
    return this.c.list('/v1/delivery/mappings', 'mappings', filter);
  }

  /** Ends a mapping. */
  retire(mappingId: string): Promise<Data<'retire-mapping'>> {
    return this.c.data({ method: 'DELETE', path: at`/v1/delivery/mappings/${mappingId}` });
  }

  /**
   * Makes many mappings, of CSV with a header line or of JSON lines: at most 5000 lines and 1 MiB. Each
   * line is judged by itself.
   */
  import(text: string): Promise<Data<'import-mappings'>> {
    const kind = text.startsWith('{') ? 'application/x-ndjson' : 'text/csv';
    return this.c.data({ method: 'POST', path: '/v1/delivery/mappings/import', body: text, headers: { 'content-type': kind } });
  }
}

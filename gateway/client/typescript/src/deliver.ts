import { type Caller } from './call.js';
import { MunimentError } from './error.js';
import type { Body, Data } from './types.js';

/** One play of content under a right, as of now. */
export type Delivery = Body<'observe-delivery'> & {
  /**
   * Names the play: 1 to 255 visible ASCII characters, unique in the tenant. Two deliveries with one
   * key and the same content count once: in `deliver` within 24 hours, in a DeliveryBuffer for good.
   * Default: a random one.
   */
  idempotencyKey?: string;
};

/** The answer to a delivery: its receipt is durable. */
export type Delivered = Data<'observe-delivery'> & {
  /** The one that was sent. */
  idempotencyKey: string;
  /** Whether this is the answer to an earlier call with the key. */
  replayed: boolean;
};

/**
 * One play of a batch. It names its right and anchor, or a vendor's id that a mapping knows. Give
 * each a rowId, unique in the tenant, or with vendor for that vendor: without one, two plays of one
 * anchor with the same playedAt are one.
 */
export type Row = Body<'ingest-batch'>['rows'][number];

/**
 * What became of a row: accepted, duplicate, rejected, unmapped or held. See errorOfRow for the error of
 * one that was rejected.
 */
export type RowResult = Data<'ingest-batch'>['results'][number];

/** Bounds of a batch, which the service sets. */
export const maxRows = 1000;
/** Of the body, before it is compressed. */
export const maxBody = 8 << 20;
const maxRow = 64 << 10; // of one row's JSON

const utf8 = new TextEncoder();

export async function deliver(caller: Caller, delivery: Delivery): Promise<Delivered> {
  const { idempotencyKey, ...body } = delivery;
  checkDwell(body.dwellMs);
  const own = idempotencyKey === undefined ? caller : caller.with({ idempotencyKey });
  const got = await own.answer<Data<'observe-delivery'>>({ method: 'POST', path: '/v1/delivery', body });
  return { ...got.data, idempotencyKey: got.idempotencyKey, replayed: got.headers.get('idempotent-replayed') === 'true' };
}

export function checkDwell(dwellMs: unknown): void {
  if (!Number.isFinite(dwellMs)) throw new TypeError('dwellMs is not a finite number'); // JSON would have null
}

/** A row as one line, and how many bytes it has. */
export function rowText(row: Row): { text: string; bytes: number } {
  checkDwell(row.dwellMs);
  const text = JSON.stringify(row);
  const bytes = utf8.encode(text).length;
  if (bytes > maxRow) throw new TypeError(`the row is longer than ${maxRow} bytes`);
  return { text, bytes };
}

/** A row of a batch: its line, or why it has none. */
interface Slot {
  text: string;
  result?: RowResult;
}

export async function* deliverBatch(caller: Caller, rows: Iterable<Row> | AsyncIterable<Row>): AsyncGenerator<RowResult, void, undefined> {
  let batch: Slot[] = [];
  let size = 0;
  let index = 0;
  async function* flush(): AsyncGenerator<RowResult, void, undefined> {
    await settle(caller, batch);
    for (const slot of batch) yield { ...slot.result!, index: index++ };
    batch = [];
    size = 0;
  }
  for await (const row of rows) {
    const slot: Slot = { text: '' };
    let bytes = 0;
    try {
      ({ text: slot.text, bytes } = rowText(row));
    } catch (err) {
      slot.result = { index: 0, status: 'rejected', error: { error: 'VALIDATION_FAILED', message: (err as Error).message } };
    }
    if (batch.length === maxRows || size + bytes + 1 > maxBody) yield* flush();
    batch.push(slot);
    size += bytes + 1;
  }
  yield* flush();
}

/** Gives each row of a batch its result. Rows that the service can't judge now are sent again. */
async function settle(caller: Caller, batch: Slot[]): Promise<void> {
  let left = batch.filter((slot) => !slot.result);
  for (let n = 0; left.length > 0; n++) {
    if (n > 0 && !(await caller.pause(n - 1))) return; // each row has an answer
    const got = await ingest(caller, left.map((slot) => slot.text));
    left.forEach((slot, i) => { slot.result = got[i]!; });
    left = left.filter((slot) => passes(slot.result!));
    if (n + 1 >= caller.retry.attempts) return;
  }
}

/** Whether a row was rejected for a reason that passes. */
export const passes = (r: RowResult) => r.error?.error === 'INTERNAL_ERROR';

/** Sends one batch, and returns a result for each line. */
export async function ingest(caller: Caller, lines: string[]): Promise<RowResult[]> {
  const packed = new Blob([lines.join('\n'), '\n']).stream().pipeThrough(new CompressionStream('gzip'));
  const body = new Uint8Array(await new Response(packed).arrayBuffer());
  const path = '/v1/delivery/ingest-batch';
  // A batch with other rows needs another Idempotency-Key; the rows are known by their identity.
  const { results } = await caller.with({ idempotencyKey: undefined }).data<Data<'ingest-batch'>>({
    method: 'POST', path, body, headers: { 'content-type': 'application/x-ndjson', 'content-encoding': 'gzip' },
  });
  const known = ['accepted', 'duplicate', 'rejected', 'unmapped', 'held'];
  if (!Array.isArray(results) || results.length !== lines.length || !results.every((r, i) => r.index === i && known.includes(r.status))) {
    throw new MunimentError({ operation: `POST ${path}`, kind: 'foreign', status: 200, message: `${lines.length} rows were answered with results of others` });
  }
  return results;
}

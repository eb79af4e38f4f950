// What tests have in common.

import assert from 'node:assert/strict';
import { gunzipSync } from 'node:zlib';

/** A clock whose pauses take no time: they only move it. */
export function quickClock(now = Date.parse('2026-05-01T12:00:00Z')) {
  const clock = {
    pauses: [],
    now: () => now,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      clock.pauses.push(ms);
      now += ms;
      await new Promise(setImmediate);
      signal?.throwIfAborted();
    },
  };
  return clock;
}

export const success = (data, headers = {}) => new Response(JSON.stringify({ ok: true, data, contractVersion: 'v1.0' }), {
  status: 200, headers: { 'content-type': 'application/json', ...headers },
});

export const failure = (status, error, more = {}, headers = {}) => new Response(JSON.stringify({ ok: false, error, message: 'a message', contractVersion: 'v1.0', ...more }), {
  status, headers: { 'content-type': 'application/json', 'x-request-id': 'req-1', ...headers },
});

/** The rows of a request to ingest-batch. */
export const rowsOf = (init) => gunzipSync(init.body).toString().trimEnd().split('\n').map((line) => JSON.parse(line));

/**
 * A service as a buffer meets it: it knows each row by its rowId, and counts it once. decide may return
 * the error of a row, refuse the answer to a whole batch.
 */
export class Ledger {
  counted = new Map();
  batches = [];

  constructor(decide = () => undefined, refuse = () => undefined) {
    Object.assign(this, { decide, refuse });
  }

  fetch = async (_, init) => {
    init.signal.throwIfAborted();
    const rows = rowsOf(init);
    const refusal = this.refuse(rows);
    if (refusal) return refusal;
    this.batches.push(rows.length);
    return success({
      results: rows.map((row, index) => {
        const error = this.counted.has(row.rowId) ? undefined : this.decide(row);
        if (error) return { index, status: 'rejected', error };
        const status = this.counted.has(row.rowId) ? 'duplicate' : 'accepted';
        this.counted.set(row.rowId, row);
        return { index, status };
      }),
    });
  };
}

/** Resolves once a condition holds. */
export async function until(condition) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** A pause is as long as the service says, in seconds, or else as the first of a policy. */
export function assertPause(ms, after) {
  const [least, most] = after > 0 ? [after * 1000, after * 1250] : [250, 500];
  assert.ok(ms >= least && ms <= most, `a pause of ${ms} ms`);
}

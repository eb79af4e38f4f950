// Attempts, errors, batches and lists, with a service that answers as the tests say.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { Client, errorOfRow, MunimentError } from 'muniment-client';

import { assertPause, failure, quickClock, rowsOf, success } from './fixture.js';

/** A client whose requests are answered by one answer after the other. */
function answering(answers, config = {}) {
  const sent = [];
  const clock = quickClock();
  const client = new Client({
    url: 'https://service.example/base/', key: 'mun_test_key', clock, ...config,
    fetch: async (target, init) => {
      sent.push({ target, ...init });
      init.signal?.throwIfAborted();
      const answer = typeof answers === 'function' ? answers(init, sent.length) : answers[Math.min(sent.length, answers.length) - 1];
      const got = await (typeof answer === 'function' ? answer(init) : answer);
      if (got instanceof Error) throw got;
      return got.clone();
    },
  });
  return { client, sent, clock };
}

const play = { rightId: 'rgh_1', spatialAnchorId: 'a', dwellMs: 8200 };
const delivered = success({ receipt: {}, signature: {}, substrate: 'DOOH', metering: {} });

test('a delivery, and what is sent', async () => {
  const { client, sent } = answering([success({ substrate: 'DOOH' }, { 'idempotent-replayed': 'true' })]);
  const got = await client.deliver({ ...play, idempotencyKey: 'play-1' });
  assert.deepEqual(got, { substrate: 'DOOH', idempotencyKey: 'play-1', replayed: true });
  assert.equal(sent[0].target, 'https://service.example/base/v1/delivery');
  assert.deepEqual(JSON.parse(sent[0].body), play);
  assert.equal(sent[0].headers.authorization, 'Bearer mun_test_key');
  assert.equal(sent[0].headers['idempotency-key'], 'play-1');
  assert.match(sent[0].headers['user-agent'], /^muniment-typescript\/\d+\.\d+\.\d+$/);
  assert.equal(sent[0].redirect, 'manual');
});

// By the table that the other clients have too.
const answers = JSON.parse(await readFile(new URL('../../testdata/answers.json', import.meta.url), 'utf8'));
for (const answer of answers) {
  test(`a call and ${answer.name}`, async () => {
    const headers = { 'x-request-id': 'req-1', ...answer.headers };
    const { client, sent, clock } = answering([new Response(answer.body, { status: answer.status, headers })], { retry: { attempts: 2 } });
    await assert.rejects(client.deliver(play), (err) => {
      assert.ok(err instanceof MunimentError);
      assert.deepEqual([err.kind, err.outcome, err.status, err.requestId, err.retryAfter], [answer.kind, answer.outcome, answer.status, 'req-1', answer.retryAfter]);
      assert.equal(err.idempotencyKey, sent[0].headers['idempotency-key']);
      return true;
    });
    assert.equal(sent.length, answer.again ? 2 : 1);
    assert.equal(new Set(sent.map((s) => s.headers['idempotency-key'])).size, 1);
    if (answer.again) assertPause(clock.pauses[0], answer.retryAfter);
  });
}

test('an error has all that the service says', async () => {
  const said = {
    field: 'a', validationErrors: [{ field: 'a', message: 'b' }], violations: [{ code: 'c' }], substrate: 'DOOH', requiredScopes: ['x'], keyScopes: ['y'],
    reason: 'OVERLOADED', pending: [{ count: 1 }], confirmationToken: 't', preview: { rows: 1 }, requestId: 'req-2',
  };
  const { client } = answering([failure(412, 'PRECONDITION_FAILED', said, { 'retry-after': '3' })]);
  const err = await client.deliver(play).catch((e) => e);
  for (const [name, value] of Object.entries(said)) assert.deepEqual(err[name], value, name);
  assert.equal(err.retryAfter, 3);
  assert.equal(err.message, 'POST /v1/delivery: 412 PRECONDITION_FAILED: a message (OVERLOADED) [request req-2]');
});

test('what does not come from the service is foreign, and its outcome unknown', async () => {
  const pages = [
    new Response('<html>sign in', { status: 200, headers: { 'content-type': 'text/html' } }), new Response('{"ok":true}', { status: 200 }),
    new Response('no', { status: 404 }), new Response('', { status: 301, headers: { location: 'https://elsewhere.example' } }),
  ];
  for (const page of pages) {
    const { client, sent } = answering([page]);
    await assert.rejects(client.deliver(play), { kind: 'foreign', outcome: 'unknown', code: '' });
    assert.equal(sent.length, 1, `${page.status}`);
  }
  const { client, sent } = answering([new Response('bad gateway', { status: 502 }), delivered]);
  await client.deliver(play);
  assert.equal(sent.length, 2);
});

test('an answer that is cut off, and none, are tried again with the same key', async () => {
  const torn = () => new Response(new ReadableStream({ start: (c) => { c.enqueue(new TextEncoder().encode('{"ok":tr')); c.error(new Error('reset')); } }), { status: 200 });
  const { client, sent, clock } = answering((_, n) => (n === 1 ? torn() : n === 2 ? new TypeError('fetch failed') : delivered));
  await client.deliver(play).catch((e) => assert.fail(e));
  assert.equal(sent.length, 3);
  assert.equal(new Set(sent.map((s) => s.headers['idempotency-key'])).size, 1);
  assert.ok(clock.pauses[0] >= 250 && clock.pauses[0] <= 500, `${clock.pauses}`);
  assert.ok(clock.pauses[1] >= 500 && clock.pauses[1] <= 1000, `${clock.pauses}`);
});

test('Retry-After is respected, and not waited for if it is too long', async () => {
  let { client, sent, clock } = answering([failure(429, 'RATE_LIMITED', {}, { 'retry-after': '7' }), delivered]);
  await client.deliver(play);
  assert.ok(clock.pauses[0] >= 7000 && clock.pauses[0] <= 8750, `${clock.pauses}`);
  ({ client, sent, clock } = answering([failure(409, 'STATE_CONFLICT', {}, { 'retry-after': '1' }), delivered]));
  await client.deliver(play);
  assert.equal(sent.length, 2, 'an earlier attempt was still being answered');
  ({ client, sent } = answering([failure(503, 'INTERNAL_ERROR', {}, { 'retry-after': '121' }), delivered]));
  await assert.rejects(client.deliver(play), { retryAfter: 121 });
  assert.equal(sent.length, 1);
});

test('a deadline bounds a call with its pauses', async () => {
  const { client, sent } = answering([failure(500, 'INTERNAL_ERROR')], { retry: { attempts: 100, firstDelayMs: 1000, maxDelayMs: 1000 } });
  await assert.rejects(client.with({ deadlineMs: 3000 }).deliver(play), { status: 500 });
  assert.ok(sent.length >= 3 && sent.length <= 6, `${sent.length}`);
});

test('an attempt ends with its timeout', async () => {
  const hang = (init) => new Promise((_, reject) => init.signal.addEventListener('abort', () => reject(init.signal.reason)));
  const { client, sent } = answering([hang], { timeoutMs: 5, retry: { attempts: 2 } });
  await assert.rejects(client.deliver(play), { kind: 'unavailable', status: 0, outcome: 'unknown' });
  assert.equal(sent.length, 2);
});

test('a signal ends a call: before anything is sent with its reason, later as an unknown outcome', async () => {
  const stop = new AbortController();
  const { client, sent } = answering([() => { stop.abort(new Error('enough')); return new TypeError('fetch failed'); }]);
  await assert.rejects(client.with({ signal: stop.signal }).deliver(play), { outcome: 'unknown' });
  assert.equal(sent.length, 1);
  await assert.rejects(client.with({ signal: stop.signal }).deliver(play), { message: 'enough' });
  assert.equal(sent.length, 1);
});

test('what makes no sense is not sent', async () => {
  const { client, sent } = answering([delivered]);
  for (const id of ['', '.', '..']) assert.throws(() => client.rights.get(id), TypeError);
  await assert.rejects(client.deliver({ ...play, dwellMs: NaN }), TypeError);
  await assert.rejects(client.deliver({ ...play, idempotencyKey: 'ä' }), TypeError);
  await assert.rejects(client.with({ idempotencyKey: '' }).deliver(play), TypeError);
  for (const url of ['', 'ledger.example', 'ftp://muniment.example', 'https://u:p@muniment.example', 'https://muniment.example?x']) {
    assert.throws(() => new Client({ url, key: 'k' }), TypeError, url);
  }
  assert.throws(() => new Client({ url: 'https://muniment.example', key: 'a b' }), (err) => err instanceof TypeError && !err.message.includes('a b'));
  await assert.rejects(new Client({ url: 'https://muniment.example', key: () => '' }).tenant(), TypeError);
  assert.throws(() => new Client({ url: 'https://muniment.example', key: 'k', retry: { attempts: 0 } }), TypeError);
  assert.equal(sent.length, 0);
});

test('ids are escaped', async () => {
  const { client, sent } = answering([success({ right: {} })]);
  await client.rights.get('a/b?c#d:e ä');
  assert.equal(sent[0].target, 'https://service.example/base/v1/rights/a%2Fb%3Fc%23d:e%20%C3%A4');
});

test('a list reads all pages, and no more than are needed', async () => {
  const page = (init, n) => success({ rights: [{ id: n }], nextCursor: n < 3 ? `c${n}` : null });
  const { client, sent } = answering(page);
  const ids = [];
  for await (const right of client.rights.list({ state: 'ACTIVE', limit: 1 })) ids.push(right.id);
  assert.deepEqual(ids, [1, 2, 3]);
  assert.deepEqual(sent.map((s) => new URL(s.target).search), ['?state=ACTIVE&limit=1', '?state=ACTIVE&limit=1&cursor=c1', '?state=ACTIVE&limit=1&cursor=c2']);
  for await (const _ of client.rights.list()) break;
  assert.equal(sent.length, 4);
});

const row = (n, more = {}) => ({ rowId: `r-${n}`, playedAt: '2026-05-01T12:00:00Z', dwellMs: 1, rightId: 'rgh_1', spatialAnchorId: 'a', ...more });

test('rows are cut into batches, and answered one by one in their order', async () => {
  const batches = [];
  const { client } = answering((init) => {
    const rows = rowsOf(init);
    batches.push(rows.length);
    return success({ results: rows.map((r, index) => ({ index, status: 'accepted', heldId: r.rowId })) });
  });
  let read = 0;
  async function* rows() {
    for (; read < 2500; read++) yield row(read);
  }
  const results = client.deliverBatch(rows());
  const first = await results.next();
  assert.deepEqual(first.value, { index: 0, status: 'accepted', heldId: 'r-0' });
  assert.ok(read <= 1000, 'no more are read than the next batch needs');
  let n = 1;
  for await (const r of results) assert.deepEqual(r, { index: n, status: 'accepted', heldId: `r-${n++}` });
  assert.equal(n, 2500);
  assert.deepEqual(batches, [1000, 1000, 500]);
  batches.length = 0;
  const long = 'x'.repeat(60 << 10);
  for await (const _ of client.deliverBatch(Array.from({ length: 200 }, (_, i) => row(i, { correlationId: long }))));
  assert.deepEqual(batches, [136, 64], 'a body has at most 8 MiB');
});

test('a row that can be no row is rejected where it stands', async () => {
  const { client, sent } = answering((init) => success({ results: rowsOf(init).map((_, index) => ({ index, status: 'accepted' })) }));
  const results = await collect(client.deliverBatch([row(0), row(1, { dwellMs: Infinity }), row(2, { correlationId: 'x'.repeat(70_000) }), row(3)]));
  assert.deepEqual(results.map((r) => [r.index, r.status]), [[0, 'accepted'], [1, 'rejected'], [2, 'rejected'], [3, 'accepted']]);
  assert.equal(errorOfRow(results[1]).outcome, 'refused');
  assert.equal(errorOfRow(results[0]), undefined);
  assert.equal(sent.length, 1);
});

async function collect(generator) {
  const all = [];
  for await (const v of generator) all.push(v);
  return all;
}

test('rows that the service can not judge now are sent again, alone', async () => {
  const sent = [];
  const { client } = answering((init, n) => {
    const rows = rowsOf(init);
    sent.push(rows.map((r) => r.rowId));
    return success({ results: rows.map((r, index) => (n < 3 && r.rowId === 'r-1' ? { index, status: 'rejected', error: { error: 'INTERNAL_ERROR', message: 'busy', reason: 'RIGHTS_STALE' } } : { index, status: 'accepted' })) });
  });
  const results = await collect(client.deliverBatch([row(0), row(1), row(2)]));
  assert.deepEqual(sent, [['r-0', 'r-1', 'r-2'], ['r-1'], ['r-1']]);
  assert.deepEqual(results.map((r) => [r.index, r.status]), [[0, 'accepted'], [1, 'accepted'], [2, 'accepted']]);
});

test('results of other rows are no answer', async () => {
  for (const results of [[], [{ index: 1, status: 'accepted' }], [{ index: 0, status: 'lost' }], undefined]) {
    const { client } = answering([success({ results })]);
    await assert.rejects(collect(client.deliverBatch([row(0)])), { kind: 'foreign' });
  }
});

test('a bundle is fetched from the service, whatever host its link has', async () => {
  const { client, sent } = answering([success({ bundleUrl: 'https://elsewhere.example/downloads/tok' }), new Response('zip')]);
  assert.equal(await new Response(await client.dsar.bundle('dsar:1')).text(), 'zip');
  assert.equal(sent[1].target, 'https://service.example/base/downloads/tok');
  await assert.rejects(answering([success({ bundleUrl: 'https://elsewhere.example/x' })]).client.dsar.bundle('dsar:1'), { kind: 'foreign' });
});

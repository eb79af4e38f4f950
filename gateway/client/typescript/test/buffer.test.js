// The buffer of a device, on real files.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { BufferFullError, BufferInUseError, Client, DeliveryBuffer } from 'muniment-client';
import { FileStorage } from 'muniment-client/node';

import { assertPause, failure, Ledger, quickClock, until } from './fixture.js';

const base = await mkdtemp(join(tmpdir(), 'buffer-'));
after(() => rm(base, { recursive: true }));
let folders = 0;
const newFolder = () => join(base, `${++folders}`, 'plays');

const play = (n) => ({ rightId: 'rgh_1', spatialAnchorId: 'a', dwellMs: 10, idempotencyKey: `play-${n}` });

async function opened(folder, fetch = () => Promise.reject(new TypeError('no route to host')), more = {}) {
  const clock = quickClock();
  const client = new Client({ url: 'https://service.example', key: 'k', fetch, clock });
  return await DeliveryBuffer.open({ client, storage: new FileStorage(folder), ...more });
}

/** Uploads until nothing waits. */
async function drained(buffer) {
  const stop = new AbortController();
  let ended = false;
  const running = buffer.run(stop.signal).finally(() => { ended = true; });
  await Promise.race([running, until(() => ended || buffer.stats().waiting === 0)]);
  stop.abort();
  await running;
}

test('plays are uploaded in their order, each once, and removed', async () => {
  const folder = newFolder();
  const ledger = new Ledger();
  let buffer = await opened(folder);
  for (let n = 0; n < 2500; n++) await buffer.add(play(n));
  assert.equal(buffer.stats().waiting, 2500);
  await buffer.close();
  const delivered = [];
  buffer = await opened(folder, ledger.fetch, { delivered: (row, result) => delivered.push([row.rowId, result.status]) });
  await drained(buffer);
  await buffer.close();
  assert.deepEqual([...ledger.counted.keys()], Array.from({ length: 2500 }, (_, n) => `play-${n}`));
  assert.deepEqual(delivered, Array.from({ length: 2500 }, (_, n) => [`play-${n}`, 'accepted']));
  assert.deepEqual(ledger.batches, [1000, 1000, 500]);
  assert.equal(await readFile(join(folder, 'buffer'), 'utf8'), 'muniment-buffer.v1\n');
});

test('a full buffer refuses, by plays and by bytes, and takes more once some are answered', async () => {
  const ledger = new Ledger();
  for (const bound of [{ maxPlays: 3 }, { maxBytes: 500 }]) {
    const buffer = await opened(newFolder(), ledger.fetch, bound);
    let kept = 0;
    await assert.rejects((async () => {
      for (;; kept++) await buffer.add(play(kept));
    })(), BufferFullError);
    assert.ok(kept >= 3 && kept <= 4, `${kept}`);
    assert.equal(buffer.stats().waiting, kept);
    await drained(buffer);
    await buffer.add(play(100));
    await buffer.close();
  }
});

test('a play that is refused is reported and removed, and others pass', async () => {
  const ledger = new Ledger((row) => (row.rowId === 'play-1' ? { error: 'PRECONDITION_FAILED', message: 'no', violations: [{ code: 'c' }] } : undefined));
  const refused = [];
  const buffer = await opened(newFolder(), ledger.fetch, { refused: (row, why) => refused.push([row.rowId, why.kind, why.violations.length]) });
  for (let n = 0; n < 3; n++) await buffer.add(play(n));
  await drained(buffer);
  assert.deepEqual(refused, [['play-1', 'precondition', 1]]);
  assert.deepEqual([...ledger.counted.keys()], ['play-0', 'play-2']);
  await buffer.close();
});

test('a row that makes its whole batch invalid is found', async () => {
  const ledger = new Ledger(undefined, (rows) => (rows.some((r) => r.rowId === 'play-37') ? failure(400, 'BAD_REQUEST', { field: 'rows' }) : undefined));
  const refused = [];
  const buffer = await opened(newFolder(), ledger.fetch, { refused: (row, why) => { refused.push([row.rowId, why.kind]); } });
  for (let n = 0; n < 100; n++) await buffer.add(play(n));
  await drained(buffer);
  assert.deepEqual(refused, [['play-37', 'invalid']]);
  assert.equal(ledger.counted.size, 99);
  await buffer.close();
});

test('what the service can not decide now waits, and what no play is to blame for ends the upload', async () => {
  let busy = 3;
  const ledger = new Ledger((row) => (row.rowId === 'play-1' && busy-- > 0 ? { error: 'INTERNAL_ERROR', message: 'busy', reason: 'RIGHTS_STALE' } : undefined));
  const trouble = [];
  let buffer = await opened(newFolder(), ledger.fetch, { trouble: (err) => trouble.push(err.reason) });
  for (let n = 0; n < 3; n++) await buffer.add(play(n));
  await drained(buffer);
  assert.equal(ledger.counted.size, 3);
  assert.deepEqual(trouble, ['RIGHTS_STALE', 'RIGHTS_STALE', 'RIGHTS_STALE']);
  await buffer.close();
  for (const [status, code, kind] of [[401, 'AUTH_INVALID', 'auth'], [404, 'RESOURCE_NOT_FOUND', 'notFound'], [400, 'BAD_REQUEST', 'invalid']]) {
    buffer = await opened(newFolder(), async () => failure(status, code));
    await buffer.add(play(0));
    await assert.rejects(buffer.run(new AbortController().signal), { kind });
    assert.equal(buffer.stats().waiting, 1);
    await buffer.close();
  }
});

test('one at a time has a folder open', async () => {
  const folder = newFolder();
  const buffer = await opened(folder);
  await assert.rejects(opened(folder), BufferInUseError);
  await buffer.close();
  await (await opened(folder)).close();
  await assert.rejects(buffer.add(play(0)), /closed/);
});

test('a file that is torn at any byte has every play before', async () => {
  const folder = newFolder();
  let buffer = await opened(folder);
  const ends = [];
  for (let n = 0; n < 3; n++) {
    await buffer.add(play(n));
    ends.push((await readFile(join(folder, 'buffer'))).length);
  }
  await buffer.close();
  const whole = await readFile(join(folder, 'buffer'));
  for (let cut = 0; cut <= whole.length; cut += 7) {
    await writeFile(join(folder, 'buffer'), Buffer.concat([whole.subarray(0, cut), cut % 2 ? Buffer.alloc(0) : Buffer.alloc(40)]));
    if (cut < 19 && cut % 2 === 0) continue; // zeros inside of the first line: not what a write leaves
    buffer = await opened(folder);
    assert.equal(buffer.stats().waiting, ends.filter((end) => end <= cut).length, `cut at ${cut}`);
    await buffer.add(play(9));
    await buffer.close();
    buffer = await opened(folder);
    assert.equal(buffer.stats().waiting, ends.filter((end) => end <= cut).length + 1, `cut at ${cut}, and one more`);
    await buffer.close();
  }
});

test('a damaged line is kept for people, and the others are uploaded', async () => {
  const folder = newFolder();
  let buffer = await opened(folder);
  for (let n = 0; n < 3; n++) await buffer.add(play(n));
  await buffer.close();
  const text = await readFile(join(folder, 'buffer'), 'utf8');
  await writeFile(join(folder, 'buffer'), text.replace('play-1', 'play-X'));
  const storage = new FileStorage(folder);
  const ledger = new Ledger();
  const client = new Client({ url: 'https://service.example', key: 'k', fetch: ledger.fetch, clock: quickClock() });
  buffer = await DeliveryBuffer.open({ client, storage });
  assert.equal(storage.damaged, 1);
  await drained(buffer);
  await buffer.close();
  assert.deepEqual([...ledger.counted.keys()], ['play-0', 'play-2']);
  assert.match(await readFile(join(folder, 'damaged'), 'utf8'), /play-X/);
  await writeFile(join(folder, 'buffer'), 'something else\n');
  await assert.rejects(opened(folder), /not the file of a buffer/);
});

test('a file that is mostly answered is replaced, and numbers are not used again', async () => {
  const folder = newFolder();
  const ledger = new Ledger((row) => (row.rowId === 'keep' ? { error: 'INTERNAL_ERROR', message: 'busy', reason: 'X' } : undefined));
  let buffer = await opened(folder, ledger.fetch);
  await buffer.add({ ...play(0), idempotencyKey: 'keep' });
  for (let n = 0; n < 2000; n++) await buffer.add({ ...play(n), correlationId: 'x'.repeat(100) });
  const stop = new AbortController();
  const running = buffer.run(stop.signal);
  await until(() => buffer.stats().waiting === 1);
  stop.abort();
  await running;
  const { length } = await readFile(join(folder, 'buffer'));
  assert.ok(length < 300 << 10, `${length} bytes are left`);
  await buffer.close();
  for (let n = 0; n < 3; n++) { // what was removed is not there again, nor is what comes anew taken for it
    buffer = await opened(folder);
    assert.equal(buffer.stats().waiting, 1 + n);
    await buffer.add(play(5000 + n));
    await buffer.close();
  }
});

test('a disk that fails leaves nothing acknowledged that is not there', async () => {
  const folder = newFolder();
  const storage = new FileStorage(folder);
  const client = new Client({ url: 'https://service.example', key: 'k' });
  let buffer = await DeliveryBuffer.open({ client, storage });
  await buffer.add(play(0));
  const sync = storage.file.sync;
  storage.file.sync = async () => { throw new Error('EIO'); };
  await assert.rejects(buffer.add(play(1)), /opened again/);
  storage.file.sync = sync;
  await assert.rejects(buffer.add(play(2)), /opened again/, 'what is on disk is not known');
  await buffer.close();
  buffer = await opened(folder);
  assert.ok(buffer.stats().waiting >= 1);
  await buffer.close();
});

test('a device may change from the Go client to this one, and back', { skip: !process.env.GO_BUFFER && 'GO_BUFFER is not set' }, async () => {
  const buffer = await opened(process.env.GO_BUFFER);
  assert.equal(buffer.stats().waiting, 1);
  await buffer.add(play(1)); // which the Go client finds then
  await buffer.close();
});

/** Runs a device in a process of its own, and kills it once it has said a number of lines. */
async function device(folder, env, killAfter) {
  const child = spawn(process.execPath, [fileURLToPath(new URL('device.js', import.meta.url)), folder], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] });
  const said = [];
  for await (const line of createInterface({ input: child.stdout })) {
    said.push(line);
    if (said.length === killAfter) child.kill('SIGKILL');
  }
  return said;
}

test('a device that is killed at any moment loses and doubles nothing that it has acknowledged', async () => {
  const folder = newFolder();
  let acknowledged = 0;
  for (const lines of [1, 7, 40, 3]) {
    const said = await device(folder, { FIRST: `${acknowledged}`, COUNT: '1000' }, lines);
    acknowledged += said.length;
    const copy = newFolder();
    await cp(folder, copy, { recursive: true });
    const ledger = new Ledger();
    const buffer = await opened(copy, ledger.fetch);
    await drained(buffer);
    await buffer.close();
    for (let n = 0; n < acknowledged; n++) assert.ok(ledger.counted.has(`play-${n}`), `play ${n} of ${acknowledged}`);
    // Those that were being added may be there as well.
    acknowledged = ledger.counted.size;
  }
});

// What a buffer does about each answer, by the table that the other clients have too.
const answers = JSON.parse(await readFile(new URL('../../testdata/answers.json', import.meta.url), 'utf8'));
for (const answer of answers) {
  test(`a buffer and ${answer.name}`, async () => {
    const ledger = new Ledger();
    const clock = quickClock();
    let sent = 0;
    const fetch = async (target, init) => (sent++ === 0 ? new Response(answer.body, { status: answer.status, headers: answer.headers }) : await ledger.fetch(target, init));
    const client = new Client({ url: 'https://service.example', key: 'k', fetch, clock });
    let refused = 0;
    const buffer = await DeliveryBuffer.open({ client, storage: new FileStorage(newFolder()), refused: () => { refused++; } });
    await buffer.add(play(0));
    const ended = await drained(buffer).then(() => 'drained', (err) => err.kind);
    assert.equal(ended, answer.buffer === 'stops' ? answer.kind : 'drained');
    assert.equal(buffer.stats().waiting, answer.buffer === 'stops' ? 1 : 0);
    assert.equal(refused, answer.buffer === 'refuses' ? 1 : 0);
    assert.equal(ledger.counted.size, answer.buffer === 'waits' ? 1 : 0);
    if (answer.buffer === 'waits') assertPause(clock.pauses[0], Math.min(answer.retryAfter, 3600));
    await buffer.close();
  });
}

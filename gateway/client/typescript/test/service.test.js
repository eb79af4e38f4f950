// The client and a service: a tenant's days, every operation of the document, a device that is offline, and
// the README. URL is where the service is, KEY a key of its tenant with all scopes, ROOT a file with its root
// key, RIGHTS the tenant's rights by substrate,
// HOOK a receiver of webhooks, and HOOKED where it shows what it has received.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Client, MunimentError, proofFile, receiptFile, Trust, verifyProof, verifyReceipt, verifyWebhook } from 'muniment-client';

import { until } from './fixture.js';
import { operations } from './operations.js';

const { URL: url, KEY: key, ROOT, RIGHTS } = process.env;
const skip = !url && 'URL is not set: make test-clients starts a service';
const client = skip ? undefined : new Client({ url, key });
const here = fileURLToPath(new URL('.', import.meta.url));

async function collect(generator) {
  const all = [];
  for await (const v of generator) all.push(v);
  return all;
}

test("a tenant's days", { skip }, async (t) => {
  const trust = await Trust.of(await readFile(ROOT, 'utf8'), await client.keyDirectory());
  assert.equal((await client.tenant()).tenant.tenantId, process.env.TENANT);
  const basis = await client.bases.create({ kind: 'LICENSE', title: 'Spring', effectiveFrom: '2026-01-01T00:00:00Z' });
  const issue = { basisId: basis.id, substrate: 'AUTOMOTIVE', effectiveFrom: '2026-01-01T00:00:00Z', scope: { campaigns: ['spring'] } };
  const once = client.with({ idempotencyKey: 'ts-issue-1' });
  const right = await once.rights.issue(issue);
  assert.deepEqual(await once.rights.issue(issue), right);

  const play = { rightId: right.id, spatialAnchorId: 'dash-1', dwellMs: 8200.5, telemetry: { speedMph: 0 }, idempotencyKey: 'ts-play-1' };
  const first = await client.deliver(play);
  const second = await client.deliver(play);
  assert.deepEqual([first.replayed, second.replayed], [false, true]);
  assert.deepEqual(second.receipt, first.receipt);
  const verified = await verifyReceipt(receiptFile(first), trust);
  assert.equal(verified.receipt.receiptId, first.receipt.receiptId);

  await assert.rejects(client.deliver({ ...play, dwellMs: 1 }), { kind: 'conflict', outcome: 'refused' });
  await assert.rejects(client.deliver({ ...play, idempotencyKey: undefined, telemetry: { speedMph: 65 } }), (err) => {
    assert.ok(err instanceof MunimentError);
    assert.equal(err.kind, 'precondition');
    assert.equal(err.violations[0].observed, 65);
    return true;
  });
  await assert.rejects(client.rights.get(basis.id), { kind: 'notFound' });

  const moved = await client.rights.suspend(right.id, 'a look');
  assert.equal(moved.right.state, 'SUSPENDED');
  const applied = async () => (await client.rights.propagation(right.id)).propagation.applied;
  await until(applied);
  await assert.rejects(client.deliver({ rightId: right.id, spatialAnchorId: 'dash-1', dwellMs: 1 }), { kind: 'conflict' });
  await client.rights.resume(right.id);
  await until(applied);

  const row = { rowId: 'ts-r-1', playedAt: new Date().toISOString(), dwellMs: 1000, rightId: JSON.parse(RIGHTS).DOOH, spatialAnchorId: 'a' };
  const results = await collect(client.deliverBatch([row, row, { ...row, rowId: 'ts-r-2', rightId: 'rgh_none' }]));
  assert.deepEqual(results.map((r) => r.status), ['accepted', 'duplicate', 'rejected']);

  await client.proofPacks.seal();
  const proof = await client.receipts.proof(first.receipt.receiptId);
  const proven = await verifyProof(proofFile(proof), trust);
  assert.equal(proven.receipt.receiptId, first.receipt.receiptId);
  assert.equal(proven.event.data.rightId, right.id);
  await until(async () => (await client.receipts.get(first.receipt.receiptId)).sealed); // the warehouse has it
  const logged = await client.receipts.get(first.receipt.receiptId);
  const whole = JSON.stringify({ receipt: logged.receipt, signature: logged.signature, event: logged.event });
  assert.equal((await verifyReceipt(whole, trust)).event.tenantId, process.env.TENANT);
  const bundle = await new Response(await client.proofPacks.bundle(logged.sealed.packId)).text();
  assert.ok(bundle.startsWith('{"checkpoint":') && bundle.endsWith('}\n'));
  const found = await collect(client.receipts.list({ rightId: right.id, limit: 1 }));
  assert.equal(found.length, 1);
  assert.ok((await collect(client.events.list({ type: ['right.issued', 'right.suspended'], limit: 1, rightId: right.id }))).length >= 2);
  assert.equal((await client.metering.get({ rightId: right.id })).totals.receipts, 1);

  await t.test('a webhook', async () => {
    const hook = await client.webhooks.create({ url: process.env.HOOK, events: ['webhook.tested'] });
    await client.webhooks.test(hook.webhook.id);
    let got;
    await until(async () => {
      got = (await (await fetch(process.env.HOOKED)).json()).find((m) => m.body.includes(hook.webhook.id));
      return got;
    });
    for (const keys of [{ secrets: [hook.secret] }, { trust, webhookId: hook.webhook.id }]) {
      const message = await verifyWebhook(keys, got.headers, got.body);
      assert.deepEqual([message.webhookId, message.events.length], [hook.webhook.id, 1]);
    }
    await client.webhooks.delete(hook.webhook.id);
  });

  await t.test('a key of a device', async () => {
    const made = await client.apiKeys.create({ label: 'device', scopes: ['delivery:write'] });
    const device = new Client({ url, key: made.apiKey });
    await assert.rejects(device.tenant(), (err) => err.kind === 'auth' && err.requiredScopes[0] === 'rights:read');
    await client.apiKeys.revoke(made.key.keyId);
  });
});

test('each operation of the document has a method, which sends what the document has', { skip }, async (t) => {
  const document = await (await fetch(`${url}/openapi.json`)).json();
  const left = ['erase']; // a person, for good, with a confirmation: for people, by a tool of theirs
  const seen = new Set();
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      const id = operation.operationId;
      if (!/^\/v1(\/|$)/.test(path) || left.includes(id)) continue;
      seen.add(id);
      await t.test(id, async () => {
        const pattern = new RegExp(`^${path.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`);
        let sent;
        const c = new Client({
          url: 'https://service.example', key: 'k', retry: { attempts: 1 },
          fetch: async (target, init) => {
            const at = new URL(target);
            if (at.pathname.startsWith('/downloads/')) return new Response('zip');
            sent = init;
            assert.match(at.pathname, pattern);
            assert.equal(init.method, method.toUpperCase());
            const allowed = (operation.parameters ?? []).filter((p) => p.in === 'query').map((p) => p.name);
            for (const name of at.searchParams.keys()) assert.ok(allowed.includes(name), `the parameter ${name} is in no document`);
            const kind = init.headers['content-type'];
            // Which the description of ingest-batch has.
            assert.ok(kind === undefined || id === 'ingest-batch' && kind === 'application/x-ndjson' || operation.requestBody?.content[kind], `${kind} is in no document`);
            assert.ok(kind !== undefined || !operation.requestBody?.required, 'no body is sent');
            const answer = operation.responses['200'].content;
            if (!answer['application/json'] || at.searchParams.has('format')) return new Response('a file');
            const example = answer['application/json'].example ?? Object.values(answer['application/json'].examples ?? {})[0]?.value;
            assert.ok(example?.data, 'the document has an example');
            const data = { ...example.data, nextCursor: null, more: false };
            if (id === 'ingest-batch') data.results = [{ ...data.results[0], index: 0 }]; // for one row
            return new Response(JSON.stringify({ ...example, data }));
          },
        });
        assert.ok(operations[id], 'there is no method for it');
        assert.notEqual(await operations[id](c), undefined);
        assert.ok(sent);
      });
    }
  }
  assert.deepEqual(Object.keys(operations).filter((id) => !seen.has(id)), [], 'in no document');
});

/** Runs device.js until it ends, or is killed after some plays. Returns what it said. */
async function device(folder, env, killAfter) {
  const child = spawn(process.execPath, [join(here, 'device.js'), folder], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] });
  const said = [];
  for await (const line of createInterface({ input: child.stdout })) {
    said.push(line);
    if (said.length === killAfter) child.kill('SIGKILL');
  }
  return said;
}

test('a device that is offline for ten minutes, and killed twice meanwhile, has each of its plays metered once', { skip }, async () => {
  const plays = 150; // one in five seconds
  const folder = await mkdtemp(join(tmpdir(), 'device-'));
  const basis = await client.bases.create({ kind: 'LICENSE', title: 'A screen' });
  const right = await client.rights.issue({ basisId: basis.id, substrate: 'DOOH', effectiveFrom: '2026-01-01T00:00:00Z', scope: {} });
  const start = Date.now() - 15 * 60_000;
  const env = { RIGHT: right.id, COUNT: `${plays}`, START: `${start}`, NOW: `${start}`, FIRST: '0' };
  for (const killAfter of [41, 60]) {
    const said = await device(folder, { ...env, HOLD: `${killAfter}` }, killAfter);
    // Whether the next play was kept is not known: it is added again.
    const [last, now] = said.at(-1).split(' ').map(Number);
    Object.assign(env, { FIRST: `${last + 1}`, NOW: `${now + 5000}` });
    assert.ok(last < plays && now < start + 600_000, 'it was killed while it was offline');
  }
  const said = await device(folder, env);
  assert.match(said.at(-1), /^lost [1-9]/);
  let totals;
  await until(async () => {
    ({ totals } = await client.metering.get({ rightId: right.id }));
    return totals.receipts >= plays;
  });
  assert.deepEqual([totals.receipts, totals.metered, totals.duplicates], [plays, plays, 0]);
  await rm(folder, { recursive: true });
});

test('the snippets of the README', { skip }, async (t) => {
  const page = await readFile(new URL('../README.md', import.meta.url), 'utf8');
  const folder = await mkdtemp(join(here, 'readme-'));
  try {
    const snippets = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map((m) => m[1]);
    assert.ok(snippets.length >= 4);
    const env = {
      ...process.env, MUNIMENT_URL: url, MUNIMENT_API_KEY: key, RIGHT_ID: JSON.parse(RIGHTS).DOOH, ROOT_KEY: await readFile(ROOT, 'utf8'), PLAYS: join(folder, 'plays'),
      WEBHOOK_SECRET: 'whsec_c2VjcmV0',
    };
    const run = (...command) => new Promise((resolve) => {
      const child = spawn(process.execPath, command, { cwd: folder, env });
      let text = '';
      for (const out of [child.stdout, child.stderr]) out.on('data', (part) => { text += part; });
      child.on('close', (code) => resolve({ code, text }));
    });
    const names = snippets.map((_, n) => join(folder, `snippet${n}`));
    for (const [n, name] of names.entries()) await writeFile(`${name}.ts`, snippets[n]);
    const modules = join(here, '../node_modules');
    const compiled = await run(join(modules, 'typescript/bin/tsc'), '--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', '--typeRoots', join(modules, '@types'),
      ...names.map((name) => `${name}.ts`));
    assert.equal(compiled.code, 0, compiled.text);
    for (const [n, name] of names.entries()) {
      await t.test(`snippet ${n + 1}`, async () => {
        const ended = await run(`${name}.js`);
        assert.equal(ended.code, 0, ended.text);
        const says = /\/\/ prints: (.*)$/m.exec(snippets[n])?.[1];
        if (says) assert.ok(ended.text.includes(says), ended.text);
      });
    }
  } finally {
    await rm(folder, { recursive: true });
  }
});

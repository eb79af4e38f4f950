// The storage of a buffer in IndexedDB, in Chromium: a page keeps plays while it is offline, the browser is killed,
// and another one uploads them. CHROMIUM is the browser.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, readlink, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';

import { chromium } from 'playwright-core';

const executablePath = process.env.CHROMIUM || '/usr/bin/chromium';
const skip = !process.env.CHROMIUM && !existsSync(executablePath) && `there is no ${executablePath}: CHROMIUM says where it is`;
const dist = fileURLToPath(new URL('../dist/', import.meta.url));

/** Serves a page, the modules, and the service: each row is counted once, by its rowId. */
async function serve() {
  const counted = new Map();
  const server = createServer(async (request, response) => {
    if (request.url === '/v1/delivery/ingest-batch') {
      const parts = [];
      for await (const part of request) parts.push(part);
      const rows = gunzipSync(Buffer.concat(parts)).toString().trimEnd().split('\n').map((line) => JSON.parse(line));
      const results = rows.map((row, index) => {
        const status = counted.has(row.rowId) ? 'duplicate' : 'accepted';
        counted.set(row.rowId, row);
        return { index, status };
      });
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ ok: true, data: { results }, contractVersion: 'v1.0' }));
    } else if (request.url.endsWith('.js')) {
      response.setHeader('content-type', 'text/javascript');
      response.end(await readFile(join(dist, request.url.replaceAll('/', ''))));
    } else {
      response.setHeader('content-type', 'text/html');
      response.end('<!doctype html><title>a device</title>');
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { counted, server, url: `http://127.0.0.1:${server.address().port}` };
}

/** Opens the page in a browser of a profile, with the buffer in its window. */
async function open(profile, url, config = {}) {
  const context = await chromium.launchPersistentContext(profile, { executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'] });
  const page = await context.newPage();
  await page.goto(url);
  await page.evaluate(async (bounds) => {
    const { Client, DeliveryBuffer } = await import('/index.js');
    const { BrowserStorage } = await import('/browserstorage.js');
    window.openBuffer = async () => {
      const client = new Client({ url: location.origin, key: 'k', retry: { firstDelayMs: 10, maxDelayMs: 50 } });
      return await DeliveryBuffer.open({ client, storage: new BrowserStorage(), ...bounds });
    };
    window.buffer = await window.openBuffer();
    window.add = (n) => window.buffer.add({ rightId: 'rgh_1', spatialAnchorId: 'a', dwellMs: 10, idempotencyKey: `play-${n}` });
  }, config);
  return { context, page };
}

test('plays of a page outlive the browser, and are uploaded once', { skip, timeout: 60_000 }, async () => {
  const { counted, server, url } = await serve();
  const profile = await mkdtemp(join(tmpdir(), 'chromium-'));
  let { context, page } = await open(profile, url);
  try {
    for (let n = 0; n < 30; n++) await page.evaluate((k) => window.add(k), n);
    assert.equal(await page.evaluate(() => window.openBuffer().then(() => '', (err) => err.name)), 'BufferInUseError');
    // The browser is killed, and with it whatever it has not written.
    process.kill(await pidOf(profile), 'SIGKILL');
    await context.close().catch(() => undefined);

    ({ context, page } = await open(profile, url, { maxPlays: 31 }));
    assert.equal(await page.evaluate(() => window.buffer.stats().waiting), 30);
    await page.evaluate(() => window.add(30));
    assert.equal(await page.evaluate(() => window.add(31).then(() => '', (err) => err.name)), 'BufferFullError');
    await page.evaluate(async () => {
      const stop = new AbortController();
      const running = window.buffer.run(stop.signal);
      while (window.buffer.stats().waiting > 0) await new Promise((resolve) => setTimeout(resolve, 10));
      stop.abort();
      await running;
      await window.buffer.close();
      window.buffer = await window.openBuffer();
    });
    assert.equal(await page.evaluate(() => window.buffer.stats().waiting), 0);
    assert.deepEqual([...counted.keys()], Array.from({ length: 31 }, (_, n) => `play-${n}`));
  } finally {
    await context.close().catch(() => undefined);
    server.close();
    server.closeAllConnections();
    await rm(profile, { recursive: true, force: true });
  }
});

/** The process of the browser that has a profile open: its lock is a link to HOST-PID. */
async function pidOf(profile) {
  const lock = await readlink(join(profile, 'SingletonLock'));
  return Number(lock.slice(lock.lastIndexOf('-') + 1));
}

// The browser's verdicts on the vectors of sealer/testdata.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { utf8 } from '../page/encoding.js';
import { readVerifier } from '../page/note.js';
import { readPack } from '../page/pack.js';
import { deliveriesOf, verifyPack } from '../page/verify.js';

const testdata = new URL('../../../sealer/testdata/', import.meta.url);
const read = (name) => new Uint8Array(readFileSync(new URL(name, testdata)));
const root = readVerifier(readFileSync(new URL('root.vkey', testdata), 'utf8'));

// elsewhere are codes that only muniment verify gives, as the page says: it rates settlement, and
// looks for receipts from after a stop.
const elsewhere = new Set(['settlement.mismatch', 'right.stopped', 'apikey.revoked']);

const isPack = (name) => {
  const head = Buffer.from(read(name).slice(0, 30)).toString();
  return /^\{"(checkpoint|entries|ok":true,"data":\{"pack|pack)/.test(head);
};

const cases = JSON.parse(readFileSync(new URL('vectors.json', testdata)))
  .filter((c) => c.files.length === 1 && !c.keys && !c.expectCheckpoint && isPack(c.files[0]));

test('there are vectors', () => {
  assert.ok(root);
  assert.ok(cases.length > 50, `${cases.length} of packs`);
});

for (const c of cases) {
  test(`${c.name}: ${c.about}`, async () => {
    const result = await verifyPack(read(c.files[0]), { root });
    const want = new Set((c.failures[0] ?? []).filter((code) => !elsewhere.has(code)));
    assert.deepEqual([...result.codes].sort(), [...want].sort(), JSON.stringify(result.failures));
    assert.equal(result.ok, want.size === 0);
    assert.ok(result.failures.every((f) => f.message && !f.message.includes('undefined')), JSON.stringify(result.failures));
  });
}

test('any altered character of an entry is found, and the entry is named', async () => {
  const pack = readPack(read('good/chain-2.ndjson'));
  for (let i = 0; i < pack.entries.length; i++) {
    const entry = pack.entries[i];
    for (let at = 20; at < entry.length; at += 37) {
      const other = entry[at] === '7' ? '8' : '7';
      const entries = pack.entries.with(i, entry.slice(0, at) + other + entry.slice(at + 1));
      const result = await verifyPack(utf8(pack.write({ ...pack, entries })), { root });
      assert.ok(!result.ok);
      if (entry.includes('"delivery.recorded"') && !result.codes.has('format.invalid')) {
        assert.ok(result.failures.some((f) => f.entry === i), `entry ${i}, character ${at}: ${JSON.stringify(result.failures)}`);
      }
    }
  }
});

test('a pack is written as it was read', () => {
  for (const name of ['good/chain-1.ndjson', 'good/chain-2.ndjson', 'good/chain-1.json', 'good/sandbox-answer.json']) {
    const bytes = read(name);
    const pack = readPack(bytes);
    assert.equal(pack.write(pack).trimEnd(), Buffer.from(bytes).toString().trimEnd(), name);
  }
});

test('without an anchor, and with a list that lacks the key', async () => {
  const bytes = read('good/chain-1.ndjson');
  const alone = await verifyPack(bytes);
  assert.equal(alone.ok, true);
  assert.equal(alone.anchor, 'none');
  assert.ok(deliveriesOf(alone) > 0);
  const stranger = await verifyPack(bytes, { keys: new Map() });
  assert.ok(stranger.codes.has('key.unknown'));
  const other = await verifyPack(bytes, { root: { ...root, key: root.key.map((b) => b ^ 1) } });
  assert.ok(other.codes.has('directory.foreign'));
});

test('what is no pack is refused with a reason', async () => {
  for (const text of ['', '\n', '{}', '[]', 'null', '{"checkpoint":', '{"checkpoint":1}\n{"actor":1}\n{"signature":2}\n', '{"entries":[],"header":null,"signature":null}']) {
    const result = await verifyPack(utf8(text), { root });
    assert.deepEqual([...result.codes], ['format.invalid'], text);
  }
  assert.ok((await verifyPack(Uint8Array.of(0xff), { root })).codes.has('format.invalid'));
});

// What verification is built from, against node's own and published vectors.

import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { canonical, parse } from '../page/canonical.js';
import { byNoble, isNative, isSound, verify } from '../page/ed25519.js';
import { base64url, fromBase64, fromBase64url, hex, utf8 } from '../page/encoding.js';
import { witnessOf } from '../page/entry.js';
import { extended, included, leafHash, node, Slice } from '../page/merkle.js';
import { sha256, sha512 } from '../page/sha2.js';

test('SHA-256 and SHA-512 are those of node, for every length about a block', () => {
  for (let n = 0; n <= 300; n++) {
    const message = new Uint8Array(randomBytes(n));
    assert.equal(hex(sha256(message)), createHash('sha256').update(message).digest('hex'), `${n} bytes`);
    assert.equal(hex(sha512(message)), createHash('sha512').update(message).digest('hex'), `${n} bytes`);
  }
  const long = new Uint8Array(randomBytes(1 << 17));
  assert.equal(hex(sha256(long)), createHash('sha256').update(long).digest('hex'));
});

test('Ed25519 by the browser and by noble agree', async () => {
  assert.equal(await isNative(), true, 'node has it');
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const key = fromBase64url(publicKey.export({ format: 'jwk' }).x);
  for (const n of [0, 1, 63, 64, 200]) {
    const message = new Uint8Array(randomBytes(n));
    const signature = new Uint8Array(sign(null, message, privateKey));
    assert.equal(await verify(key, signature, message), true);
    assert.equal(byNoble(key, signature, message), true);
    for (const at of [0, 31, 32, 63]) {
      const other = signature.slice();
      other[at] ^= 1;
      assert.equal(await verify(key, other, message), false);
      assert.equal((() => { try { return byNoble(key, other, message); } catch { return false; } })(), false);
    }
  }
  assert.equal(await verify(key, null, utf8('')), false);
});

test('keys that anybody can sign with are not sound', () => {
  for (const weak of ['00'.repeat(32), `01${'00'.repeat(31)}`, `ec${'ff'.repeat(30)}7f`, `ee${'ff'.repeat(30)}7f`, '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05']) {
    assert.equal(isSound(Uint8Array.from(Buffer.from(weak, 'hex'))), false, weak);
  }
  assert.equal(isSound(null), false);
});

test('base64 has one spelling', () => {
  for (const bad of ['A', 'AB', 'AA==', 'AA\n', 'A+', 'A/', 'AAA=']) assert.equal(fromBase64url(bad), null, bad);
  assert.equal(base64url(fromBase64url('_-8')), '_-8');
  assert.equal(fromBase64('AB=='), null);
});

test('RFC 8785', () => {
  assert.equal(canonical({ 'é': 1, a: [1e21, 0.000001, -0, 4.50], '\u{1f600}': null, '\ufb33': '\u2028"\\\u0007' }),
    '{"a":[1e+21,0.000001,0,4.5],"é":1,"\u{1f600}":null,"\ufb33":"\u2028\\"\\\\\\u0007"}');
  for (const other of ['{"b":1,"a":2}', '{"a":1,"a":1}', '{ "a":1}', '1.0', '-0', '"\\u0041"', '"\\/"', '"\\ud800"', '9007199254740993', '[1,]', '']) {
    assert.equal(parse(other), undefined, other);
  }
  assert.deepEqual(parse('["\\\\ud800",{"__proto__":1}]')[0], '\\ud800');
});

test('one delivery, with every value in between', () => {
  const worked = JSON.parse(readFileSync(new URL('../../../sealer/testdata/worked.json', import.meta.url)));
  const event = parse(worked.event);
  assert.equal(base64url(leafHash(utf8(worked.event))), worked.leafHash);
  assert.ok(event.data.receipt.witness.endsWith(`:${witnessOf(event)}`));
});

test('trees of every small size, with every beginning', () => {
  const leaves = Array.from({ length: 20 }, (_, i) => leafHash(Uint8Array.of(i)));
  const top = (list) => {
    if (list.length === 1) return list[0];
    let k = 1;
    while (k * 2 < list.length) k *= 2;
    return node(top(list.slice(0, k)), top(list.slice(k)));
  };
  for (let size = 1; size <= leaves.length; size++) {
    const root = top(leaves.slice(0, size));
    for (let first = 0; first < size; first++) {
      const parts = [];
      let at = 0;
      for (const width of [16, 8, 4, 2, 1]) {
        if (Math.floor(first / width) % 2 === 1) {
          parts.push(top(leaves.slice(at, at + width)));
          at += width;
        }
      }
      const slice = new Slice(first, parts, leaves.slice(first, size));
      assert.deepEqual(slice.root(), root);
      for (let leaf = first; leaf < size; leaf++) {
        const path = slice.path(leaf);
        assert.ok(included(leaf, size, leaves[leaf], path, root));
        assert.ok(!included(leaf, size, leaves[(leaf + 1) % 20], path, root));
        assert.ok(!included(leaf, size, leaves[leaf], path.concat(root), root));
      }
    }
  }
  assert.equal(extended(3, 7, leaves[0], []), null);
});

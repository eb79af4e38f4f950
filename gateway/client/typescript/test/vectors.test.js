// Verification, by the vectors of sealer/testdata and those of the Go client.

import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Trust, VerifyError, verifyProof, verifyReceipt, verifyWebhook, WebhookError } from 'muniment-client';

const testdata = new URL('../../../../sealer/testdata/', import.meta.url);
const read = (name) => readFileSync(new URL(name, testdata), 'utf8');
const root = read('root.vkey');
const vectors = JSON.parse(read('vectors.json'));

/** The one file of a case that is a receipt or a proof, the keys it is verified by, and its verdicts. */
function subjectOf(c) {
  const keys = c.keys ?? c.files.find((name) => /(^|\/)keys[\w-]*\.json$/.test(name));
  const files = c.files.filter((name) => name !== keys);
  if (!keys || files.length !== 1) return undefined;
  const verify = /\/receipt/.test(files[0]) ? verifyReceipt : /\/proof(?!-event|-receipt)[\w-]*\.json$/.test(files[0]) ? verifyProof : undefined;
  return verify && { verify, file: files[0], keys, codes: c.failures?.[c.files.indexOf(files[0])] ?? [] };
}

let count = 0;
for (const c of vectors) {
  const subject = subjectOf(c);
  if (!subject) continue;
  count++;
  test(`${c.name}: ${c.about}`, async () => {
    const trust = await Trust.of(root, read(subject.keys));
    const verified = subject.verify(read(subject.file), trust);
    if (subject.codes.length === 0) {
      assert.ok((await verified).receipt.receiptId);
      return;
    }
    await assert.rejects(verified, (err) => {
      assert.ok(err instanceof VerifyError);
      assert.equal(err.code, subject.codes[0], err.message);
      return true;
    });
  });
}

test('there are vectors', () => assert.ok(count >= 30, `${count}`));

test('a proof of an event that is no delivery', async () => {
  const trust = await Trust.of(root, read('good/proof-keys.json'));
  const event = read('good/proof-event.json').trim();
  const { proof } = { proof: read('good/proof.tlog-proof') };
  const verified = await verifyProof(`{"event":${event},"proof":${JSON.stringify(proof)}}`, trust);
  assert.equal(verified.receipt, undefined);
  assert.deepEqual(verified.event, JSON.parse(event));
});

for (const name of ['delegation-open', 'delegation-over', 'delegation-backwards', 'keys-weak-key', 'keys-unreduced-key']) {
  test(`directory ${name}`, async () => {
    await assert.rejects(Trust.of(root, read(`bad/${name}.json`)), { code: 'directory.invalid' });
  });
}

test('directories under the root, and under another', async () => {
  for (const name of ['keys', 'keys-with-revocation', 'keys-of-the-successor', 'proof-keys']) await Trust.of(root, read(`good/${name}.json`));
  await Trust.of(undefined, read('good/keys.json'));
  const { publicKey } = generateKeyPairSync('ed25519');
  const key = Buffer.concat([Buffer.of(1), Buffer.from(publicKey.export({ format: 'jwk' }).x, 'base64url')]);
  const hash = createHash('sha256').update('root.example\n').update(key).digest('hex').slice(0, 8);
  await assert.rejects(Trust.of(`root.example+${hash}+${key.toString('base64')}`, read('good/keys.json')), { code: 'directory.invalid' });
  await assert.rejects(Trust.of('root.example', read('good/keys.json')), { code: 'directory.invalid' });
  await assert.rejects(Trust.of(root, '{}'), { code: 'directory.invalid' });
});

test('every altered character of a receipt is found', async () => {
  const trust = await Trust.of(root, read('good/keys.json'));
  const text = read('good/receipt.json');
  const { receipt, signature } = JSON.parse(text).data;
  const plain = JSON.stringify({ receipt, signature });
  await verifyReceipt(plain, trust);
  for (let at = 0; at < plain.length; at++) {
    const other = plain[at] === '7' ? '8' : '7';
    await assert.rejects(verifyReceipt(plain.slice(0, at) + other + plain.slice(at + 1), trust), VerifyError, `character ${at}`);
  }
});

test('every altered character of a proof is found', async () => {
  const trust = await Trust.of(root, read('good/proof-keys.json'));
  const text = read('good/proof-data.json').trim();
  await verifyProof(text, trust);
  for (let at = 0; at < text.length; at += 3) {
    const other = text[at] === '7' ? '8' : '7';
    await assert.rejects(verifyProof(text.slice(0, at) + other + text.slice(at + 1), trust), VerifyError, `character ${at}`);
  }
});

test('a key signs within its window, and within the delegation of its directory', async () => {
  const trust = await Trust.of(root, read('good/keys.json'));
  const { keyId } = JSON.parse(read('good/receipt.json')).data.signature;
  const end = Date.parse('2028-05-01T12:00:00Z'); // of the delegation
  trust.find(keyId, 'receipt_signing', end - 1);
  assert.throws(() => trust.find(keyId, 'receipt_signing', end), { code: 'key.outside_window' });
  assert.throws(() => trust.find(keyId, 'receipt_signing', Date.parse('2026-05-01T11:59:59Z')), { code: 'key.outside_window' });
});

test('an answer with a member twice is refused', async () => {
  const trust = await Trust.of(root, read('good/keys.json'));
  const { receipt, signature } = JSON.parse(read('good/receipt.json')).data;
  const text = `{"receipt":${JSON.stringify(receipt)},"signature":${JSON.stringify(signature)}}`;
  await verifyReceipt(text, trust);
  for (const other of [text.replace('{', '{"receipt":{},'), text.replace('"nonce":', '"nonce":"","nonce":'), text.replace('"nonce":', '"n\u006fnce":"","nonce" :')]) {
    await assert.rejects(verifyReceipt(other, trust), { code: 'format.invalid' });
  }
});

test('what is no answer is refused as malformed', async () => {
  const trust = await Trust.of(root, read('good/keys.json'));
  const deep = '['.repeat(200_000) + ']'.repeat(200_000);
  for (const text of ['', 'null', '[]', '{}', '{"receipt":1,"signature":2}', '{"ok":false,"error":"X"}', `{"receipt":${deep},"signature":{}}`]) {
    await assert.rejects(verifyReceipt(text, trust), { code: 'format.invalid' }, text.slice(0, 40));
    await assert.rejects(verifyProof(text, trust), { code: 'format.invalid' }, text.slice(0, 40));
  }
});

const hooks = JSON.parse(readFileSync(new URL('../../testdata/webhooks.json', import.meta.url), 'utf8'));
for (const c of hooks.cases) {
  test(`webhook: ${c.name}`, async () => {
    const keys = { secrets: c.secrets, ...(c.trust ? { trust: await Trust.of(hooks.root, hooks.directory) } : {}), ...(c.webhookId ? { webhookId: c.webhookId } : {}) };
    const verified = verifyWebhook(keys, c.header, new TextEncoder().encode(c.body), c.now * 1000);
    if (c.says) {
      await assert.rejects(verified, (err) => {
        assert.ok(err.message.includes(c.says), err.message);
        assert.equal(err instanceof WebhookError, !c.wrongKeys);
        return true;
      });
      return;
    }
    assert.deepEqual(await verified, {
      id: 'dlv_1', type: 'right.revoked', timestamp: '2026-05-01T13:00:00.000Z', tenantId: 'tnt_1', webhookId: 'whk_1', events: [{ v: 1 }],
    });
  });
}

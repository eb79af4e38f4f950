// A stranger's way to a key, in Chromium: with no LINK, the application for it; with LINK, that of the
// mail to confirm it, or that of the activation mail, the key, a delivery by it, and a pack that is verified on the page. URL is where
// the service is, ROOT its root key, PACK the file that the pack is written to.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { launch, Looking } from './look.js';

const { URL: url, LINK: link, ROOT: root, PACK: pack } = process.env;

const confirms = link?.includes('#confirm=');

test(confirms ? 'a confirmation' : link ? 'from the mail to a verified pack' : 'an application', { timeout: 120_000 }, async () => {
  const browser = await launch();
  try {
    const page = await browser.newPage();
    const visit = new Looking(page, url, 'access');
    await (confirms ? confirm(page) : link ? activate(page) : apply(page));
    visit.clean();
  } finally {
    await browser.close();
  }
});

async function apply(page) {
  await page.goto(`${url}/playground`);
  const form = page.locator('#access-parts form').first();
  await form.getByLabel('E-mail').fill('ada@example.org');
  await form.getByLabel('Organisation').fill('Example Ltd');
  await form.getByLabel('What you want to use it for').fill('Trying it out');
  await form.getByRole('button', { name: 'Apply' }).click();
  await form.getByText('Thank you.').waitFor();
}

// follow opens the link, which does nothing by itself, and presses its button.
async function follow(page, name) {
  let posts = 0;
  page.on('request', (r) => { posts += r.method() === 'POST' && r.url().includes('/api/access/') ? 1 : 0; });
  await page.goto(link);
  const button = page.locator('#activation').getByRole('button', { name });
  await button.waitFor();
  assert.equal(posts, 0, 'opening the link spends nothing');
  await button.click();
}

async function confirm(page) {
  await follow(page, 'Confirm');
  await page.locator('#activation').getByText('Your application is confirmed.').waitFor();
}

async function activate(page) {
  await follow(page, 'Activate');
  const panel = page.locator('#activation');
  const key = await panel.getByLabel('Your API key').innerText();
  assert.match(key, /^mun_test_/);
  assert.ok((await panel.boundingBox()).y < 400, 'the key comes first');
  const [file] = await Promise.all([page.waitForEvent('download'), panel.getByRole('button', { name: 'Download .env' }).click()]);
  assert.equal(readFileSync(await file.path(), 'utf8'), `MUNIMENT_KEY=${key}\n`);
  assert.equal(await panel.getByRole('link', { name: 'Open the console' }).getAttribute('href'), '/console/sign-in');

  // sends one of the requests that the page offers, with changes to its body.
  const sends = async (name, change) => {
    await panel.getByLabel('Request').selectOption(name);
    if (change) {
      const body = panel.getByLabel('Body');
      await body.fill(JSON.stringify({ ...JSON.parse(await body.inputValue()), ...change }));
    }
    const answered = page.waitForResponse((r) => new URL(r.url()).pathname.startsWith('/v1/'));
    await panel.getByRole('button', { name: 'Send' }).click();
    const answer = await answered;
    assert.equal(answer.status(), 200, await answer.text());
    return (await answer.json()).data;
  };
  const { basis } = await sends('basis');
  const { right } = await sends('right', { basisId: basis.id });
  const { receipt } = await sends('delivery', { rightId: right.id });
  const sealed = await sends('seal');

  const bundle = await page.request.get(`${url}/v1/proof-packs/${sealed.pack.packId}/bundle`, { headers: { authorization: `Bearer ${key}` } });
  const text = await bundle.text();
  assert.equal(bundle.status(), 200, text);
  assert.ok(text.includes(receipt.receiptId), 'the pack has the receipt');
  writeFileSync(pack, text);
  await page.getByText('Trust a root key instead of this service').click();
  await page.getByLabel('Root key').fill(root);
  await page.getByLabel('Verify a pack that you have').setInputFiles(pack);
  await page.locator('.outcome.good').getByText('the root key that you gave').waitFor();
  await page.getByLabel('Verify a pack that you have').setInputFiles({ name: 'altered.ndjson', mimeType: 'application/x-ndjson', buffer: Buffer.from(text.replace('screen-0042', 'screen-0043')) });
  await page.locator('.outcome.bad').waitFor();
}

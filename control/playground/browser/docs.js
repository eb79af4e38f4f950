// A reader of /docs, in Chromium: the search over fields, and a request that is tried with a key. URL is
// where the service is, KEY an API key of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { launch, Looking, views } from './look.js';

const { URL: url, KEY: key } = process.env;

for (const [name, viewport, colorScheme] of [views[0], views[3]]) {
  test(`the documentation, ${name}, ${colorScheme}`, { timeout: 120_000 }, async () => {
    const browser = await launch();
    try {
      const page = await browser.newPage({ viewport, colorScheme, reducedMotion: 'reduce' });
      const visit = new Looking(page, url, `docs-${name}-${colorScheme}`);
      await page.goto(`${url}/docs`);
      await page.locator('article').first().waitFor();
      const open = async () => { if (name === 'phone') await page.getByRole('button', { name: 'Operations', exact: true }).click(); };

      await open();
      await page.getByLabel('Filter operations and fields').fill('confirmationtoken');
      assert.equal(await page.locator('article:visible').count(), 1);
      assert.equal(await page.locator('article:visible').getAttribute('id'), 'erase');
      await page.getByLabel('Filter operations and fields').fill('subject.erased');
      await page.locator('#kinds-of-events').waitFor({ state: 'visible' });
      await page.getByLabel('Filter operations and fields').fill('get the tenant');
      await page.getByLabel(/^API key/).fill(key);
      await open();

      const article = page.locator('#get-tenant');
      await article.getByText('Try it').click();
      await article.getByRole('button', { name: 'Send' }).click();
      await article.getByText('Answered 200.').waitFor();
      assert.match(await article.locator('.trial pre').innerText(), /"tenantId": "tnt_/);
      await article.getByLabel('Path and query').fill('https://example.org/v1/tenant');
      await article.getByRole('button', { name: 'Send' }).click();
      await article.getByText('There was no answer').waitFor();
      assert.deepEqual(visit.elsewhere, [], 'the policy blocks it');
      assert.ok(visit.faults.every((f) => f.includes('example.org')), visit.faults.join('\n'));
      await visit.look('tried');
    } finally {
      await browser.close();
    }
  });
}

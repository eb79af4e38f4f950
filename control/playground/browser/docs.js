// A reader of /docs, in Chromium: the search over fields, and a request that is tried with a key. URL is
// where the service is, KEY an API key of it; SHOTS a folder for pictures, if they are wanted.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import { chromium } from 'playwright-core';

const { URL: url, KEY: key, SHOTS: shots, CHROMIUM: executablePath = '/usr/bin/chromium' } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

for (const [name, viewport, colorScheme] of [['desktop', { width: 1280, height: 900 }, 'light'], ['phone', { width: 390, height: 844 }, 'dark']]) {
  test(`the documentation, ${name}, ${colorScheme}`, { timeout: 120_000 }, async () => {
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'] });
    try {
      const page = await browser.newPage({ viewport, colorScheme, reducedMotion: 'reduce' });
      page.setDefaultTimeout(20_000);
      const elsewhere = [], faults = [];
      page.on('request', (r) => { if (!r.url().startsWith(`${url}/`) && !r.url().startsWith('data:')) elsewhere.push(r.url()); });
      page.on('console', (m) => { if (m.type() === 'error' && !m.text().startsWith('Failed to load resource')) faults.push(m.text()); });
      page.on('pageerror', (e) => faults.push(e.message));
      await page.goto(`${url}/docs`);
      await page.locator('article').first().waitFor();
      const open = async () => { if (name === 'phone') await page.getByRole('button', { name: 'Operations', exact: true }).click(); };

      await open();
      await page.getByLabel('Filter operations and fields').fill('confirmationtoken');
      assert.equal(await page.locator('article:visible').count(), 1);
      assert.equal(await page.locator('article:visible').getAttribute('id'), 'erase');
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
      assert.deepEqual(elsewhere, [], 'the policy blocks it');
      assert.ok(faults.every((f) => f.includes('example.org')), faults.join('\n'));
      if (shots) await page.screenshot({ path: `${shots}/docs-${name}-${colorScheme}.png` });
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      assert.deepEqual(violations.filter((v) => ['serious', 'critical'].includes(v.impact)).map((v) => `${v.id}: ${v.nodes[0].target}`), []);
    } finally {
      await browser.close();
    }
  });
}

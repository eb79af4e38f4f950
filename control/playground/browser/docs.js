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
      await page.getByRole('heading', { level: 1, name: 'Muniment' }).waitFor();
      const painted = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
      assert.ok(painted <= 2000, `it is painted after ${painted} ms`);
      let most = 0; // nodes of any operation
      const nodes = async () => { most = Math.max(most, await page.evaluate(() => document.querySelectorAll('*').length)); };
      await nodes();
      await visit.look('overview');
      const open = async () => { if (name === 'phone') await page.getByRole('button', { name: 'Operations', exact: true }).click(); };

      // a search over all operations and their fields, of which one at a time is drawn
      const search = page.getByLabel('Search operations and fields');
      const found = page.locator('#contents a:visible');
      await open();
      await search.fill('confirmationtoken');
      assert.equal(await found.count(), 1);
      await search.press('Enter');
      await page.locator('article#erase').waitFor();
      assert.equal(await page.locator('article').count(), 1);
      await open();
      await search.fill('subject.erased');
      await found.getByText('Kinds of events').click();
      await page.locator('article#kinds-of-events').waitFor();
      await nodes();
      await open();
      await search.fill('no such field');
      await page.getByText('No operation has that.').waitFor();
      await search.fill('');
      for (const id of await page.locator('#contents a').evaluateAll((all) => all.map((a) => a.hash))) {
        await page.evaluate((to) => { location.hash = to; }, id);
        await page.locator(`article${id}`).waitFor();
        await nodes();
      }
      assert.ok(most <= 5000, `the page has ${most} elements`);
      console.log(`# first paint ${Math.round(painted)} ms, at most ${most} elements`);
      await page.goto(`${url}/docs#observe-delivery`);
      await page.locator('article#observe-delivery').waitFor();
      if (name === 'phone' && await page.locator('aside.open').count() > 0) await open();
      await visit.look('operation');
      await page.goBack();
      await open();
      await search.fill('get the tenant');
      await page.getByLabel(/^API key/).fill(key);
      await search.press('Enter');

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

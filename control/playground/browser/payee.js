// A payee's visit by a link, in Chromium. URL is where the service is, TOKEN the link's.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { launch, Looking, views } from './look.js';

const { URL: url, TOKEN: token } = process.env;
const link = `${url}/payee/${token}`;

for (const [device, viewport, colorScheme] of views) {
  test(`a payee reads and verifies: ${device}, ${colorScheme}`, { timeout: 200_000 }, async () => {
    const browser = await launch();
    try {
      // What axe and pictures need runs script, which the page's own policy does not let run.
      const looked = await browser.newPage({ viewport, colorScheme, bypassCSP: true });
      const look = new Looking(looked, url, `payee-${device}-${colorScheme}`);
      await looked.goto(link);
      await look.look('page');
      assert.ok(await looked.getByRole('link', { name: 'Verify in this browser' }).evaluate((a) => a.getBoundingClientRect().bottom <= innerHeight), 'it is in sight');
      await looked.goto(`${url}/payee/${'A'.repeat(43)}`);
      await look.look('none');
      look.clean();
      await looked.close();

      const page = await browser.newPage({ viewport, colorScheme });
      const sent = [];
      page.on('request', (r) => sent.push([r.url(), r.headers().referer]));
      const visit = new Looking(page, url, `payee-${device}-${colorScheme}`);
      await page.goto(link);
      await page.getByRole('heading', { level: 1 }).getByText('Statement 2').waitFor();
      assert.equal(await page.getByText('Venue').count(), 0, 'another payee is not there');

      const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'PDF' }).click()]);
      assert.match(download.suggestedFilename(), /^\d{4}-\d{6}\.pdf$/);
      assert.equal(await download.failure(), null);

      await page.getByRole('link', { name: 'Verify in this browser' }).click();
      await page.locator('#report h2').getByText('Sound', { exact: true }).waitFor({ timeout: 120_000 });
      await page.getByText('6.30 EUR as due to').first().waitFor();
      assert.equal(page.url(), `${url}/verify`, 'the token is not in the address bar');
      assert.ok(!await page.evaluate((text) => document.body.innerHTML.includes(text), token), 'nor in the page');
      await visit.look('verified');
      await page.waitForLoadState('networkidle');
      for (const [to, referrer] of sent) assert.ok(!referrer?.includes(token), `${to} learns the link`);
      assert.deepEqual(sent.map(([to]) => to).filter((to) => to.startsWith(link)).map((to) => to.replace(link, '')), ['', '/pdf', '/proof']);

      await page.goto(`${url}/docs`);
      await page.goto(`${url}/verify#payee=${'A'.repeat(43)}`);
      await page.getByText('Ask who sent it for another one.').first().waitFor();
      assert.equal(page.url(), `${url}/verify`);
      visit.clean();
    } finally {
      await browser.close();
    }
  });
}

// A visit to the page that verifies, in Chromium. URL is where the service is; FILES a folder with root.vkey, and good and bad
// evidence (sealer/testdata); OWN a receipt of the service itself; TMP a folder to write to.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { launch, Looking, views } from './look.js';

const { URL: url, FILES: files, OWN: own } = process.env;
const good = (...names) => names.map((name) => `${files}/good/${name}`);

for (const [device, viewport, colorScheme] of views) {
  test(`files are judged: ${device}, ${colorScheme}`, { timeout: 300_000 }, async () => {
    const browser = await launch();
    try {
      const page = await browser.newPage({ viewport, colorScheme, acceptDownloads: false });
      const sent = [];
      page.on('request', (r) => sent.push(`${r.method()} ${new URL(r.url()).pathname}`));
      const visit = new Looking(page, url, `verify-${device}-${colorScheme}`);
      await page.goto(`${url}/verify`);
      await visit.look('empty');
      const give = (...names) => page.getByLabel('Choose files, or drop them here').setInputFiles(names);
      const verdict = (title) => page.locator('#report h2').getByText(title, { exact: true }).waitFor({ timeout: 120_000 });
      const clear = async () => {
        for (const button of await page.getByRole('button', { name: /^Remove / }).all()) await button.click({ timeout: 20_000 }).catch(() => {});
        while (await page.getByRole('button', { name: /^Remove / }).count() > 0) await page.getByRole('button', { name: /^Remove / }).first().click();
      };

      // the service's own, by its published keys
      await give(own);
      await verdict('Sound');
      await page.getByText('that they are genuine is its own word').waitFor();
      await visit.look('own');

      // the checksums of a release, whose files are not here
      await clear();
      const sums = `${process.env.TMP}/SHA256SUMS`;
      writeFileSync(sums, `${'0'.repeat(64)}  muniment_v1.0.0.tar.gz\n`);
      await give(sums);
      await verdict('Can’t be judged');
      await page.getByText('What to do: run muniment-verify --root RELEASE_KEY SHA256SUMS.note in the folder of the release').waitFor();

      // another service's: nothing says that it is wrong
      await clear();
      await give(...good('statement.json', 'stated-1.ndjson', 'stated-2.ndjson', 'stated-3.ndjson'));
      await verdict('Can’t be judged');

      // that service's root key among the files is not used before the reader says whose it is
      await give(`${files}/root.vkey`);
      await page.getByText('root.vkey holds a root key, which is not used').waitFor();
      await verdict('Can’t be judged');
      assert.equal(await page.getByLabel('Root key').inputValue(), '');
      await visit.look('offered');
      await page.getByRole('button', { name: 'The operator gave me root.vkey: use it' }).click();
      await verdict('Sound');
      await page.getByText('9.125 EUR for 2 payees').first().waitFor();
      await page.getByText('The keys were checked up to the root key that you gave. This service could not say').waitFor();
      await visit.look('statement');

      // typed by the reader, it stays whatever key comes with files
      const key = readFileSync(`${files}/root.vkey`, 'utf8').trim();
      const root = page.getByLabel('Root key');
      await root.fill(key);
      await verdict('Sound');
      const other = `${process.env.TMP}/other.vkey`;
      writeFileSync(other, key.replace(/^[^+]+/, 'another'));
      await give(other);
      await page.getByText('other.vkey holds another root key').waitFor();
      assert.equal(await root.inputValue(), key);

      // the newest input decides, though a run has begun: a root key that is changed meanwhile, and one after the other
      await root.fill(key.replace(/^[^+]+/, 'another'));
      await root.fill(`${key}x`);
      await verdict('Can’t be judged');
      await root.fill(key);
      await verdict('Sound');

      // something that was altered among them decides
      await give(`${files}/bad/entry-deleted.ndjson`);
      await verdict('Not sound');
      await visit.look('unsound');
      await page.emulateMedia({ media: 'print', colorScheme });
      assert.ok(!await page.locator('#drop').isVisible(), 'a certificate has no form');
      await page.emulateMedia({ media: 'screen', colorScheme });

      const loaded = sent.filter((line) => !/^GET \/(verify(\/[\w.-]+)?|\.well-known\/muniment\/keys\.json|api\/sandbox\/runtime-keys)$/.test(line));
      assert.deepEqual(loaded, [], 'nothing but the page itself and public keys is requested, and nothing is sent');
      visit.clean();
    } finally {
      await browser.close();
    }
  });
}

// A visit to the page that verifies, in Chromium. URL is where the service is; FILES a folder with root.vkey, and good and bad
// evidence (sealer/testdata); OWN a receipt of the service itself; TMP a folder to write to.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { launch, Looking, views } from './look.js';

const { URL: url, FILES: files, OWN: own } = process.env;
const good = (...names) => names.map((name) => `${files}/good/${name}`);

// dropFolder drops a folder with files on the page, as a browser does. It runs on the page.
function dropFolder(files) {
  const entries = files.map(([name, text]) => ({ name, isFile: true, isDirectory: false, file: (done) => done(new File([text], name)) }));
  const reader = { readEntries: (done) => done(entries.splice(0, 10)) };
  const folder = { name: 'packs', isFile: false, isDirectory: true, createReader: () => reader };
  const event = new Event('drop', { cancelable: true });
  event.dataTransfer = { files: [], items: [{ webkitGetAsEntry: () => folder }] };
  dispatchEvent(event);
}

class Verifying extends Looking {
  // certificate requires that what is printed is the verdict with each file, and nothing that is there to be used.
  async certificate(what) {
    const { page } = this;
    const pages = await page.pdf({ format: 'A4' }); // which the page is told of, as by a person's press
    if (process.env.SHOTS) writeFileSync(`${process.env.SHOTS}/${this.name}-${what}.pdf`, pages);
    const { colorScheme } = this;
    await page.emulateMedia({ media: 'print', colorScheme });
    for (const part of ['#drop', '#anchor', '#report .buttons', '#report .programs', '.top']) assert.equal(await page.locator(part).first().isVisible(), false, `a certificate has no ${part}`);
    for (const part of ['#report h2', '#report .outcome', '#report > .status']) assert.equal(await page.locator(part).first().isVisible(), true, `a certificate has ${part}`);
    await page.emulateMedia({ media: 'screen', colorScheme });
  }
}

for (const [device, viewport, colorScheme] of views) {
  test(`files are judged: ${device}, ${colorScheme}`, { timeout: 300_000 }, async () => {
    const browser = await launch();
    try {
      const page = await browser.newPage({ viewport, colorScheme, acceptDownloads: false });
      const sent = [];
      page.on('request', (r) => sent.push(`${r.method()} ${new URL(r.url()).pathname}`));
      const visit = Object.assign(new Verifying(page, url, `verify-${device}-${colorScheme}`), { colorScheme });
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
      await page.getByText('What to do next: keep this file, and get it once more').waitFor();
      await visit.certificate('unsound');

      // a folder, as a file of many packs is unpacked: all of it is judged at once, and what a system has left in it is no evidence
      await clear();
      const text = readFileSync(good('chain-1.ndjson')[0], 'utf8');
      await page.evaluate(dropFolder, [['keys.json', readFileSync(good('keys.json')[0], 'utf8')], ['.DS_Store', 'x'], ...Array.from({ length: 24 }, (_, i) => [`${i}-chain-1.ndjson`, text])]);
      await verdict('Sound');
      await page.getByText('25 files', { exact: true }).waitFor();
      await page.getByText('25 files that are sound').waitFor();
      await page.getByText('What to do next: print this page as a certificate').waitFor();
      assert.equal(await page.locator('#report .report-file').first().isVisible(), false, 'they are folded');
      await visit.look('folder');
      await visit.certificate('folder');
      assert.equal(await page.locator('#report .report-file').first().isVisible(), true, 'on paper they are there');
      await visit.button('Remove all files').click();
      await page.locator('#report h2').waitFor({ state: 'detached' });

      const loaded = sent.filter((line) => !/^GET \/(verify(\/[\w.-]+)?|\.well-known\/muniment\/keys\.json|api\/sandbox\/runtime-keys)$/.test(line));
      assert.deepEqual(loaded, [], 'nothing but the page itself and public keys is requested, and nothing is sent');
      visit.clean();
    } finally {
      await browser.close();
    }
  });
}

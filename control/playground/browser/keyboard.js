// An auditor's day without a mouse, in Chromium, at two widths: signing in, plays, a play, its proof, packs, downloads, and the page that
// verifies. URL is the API of a service, KEY a key of a tenant that has plays and packs; ROOT is the service's root key.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { launch, Looking } from './look.js';

const { URL: url, KEY: key, ROOT: root } = process.env;
const browser = await launch();
test.after(() => browser.close());

for (const [device, viewport] of [['desktop', { width: 1280, height: 900 }], ['phone', { width: 390, height: 844 }]]) {
  test(`by the keyboard alone, ${device}`, { timeout: 240_000 }, async (t) => {
    const context = await browser.newContext({ viewport, reducedMotion: 'reduce', acceptDownloads: true });
    const visit = new Keyboard(await context.newPage(), url, `keyboard-${device}`);
    try {
      await t.test('signing in', () => visit.signIn());
      await t.test('the overview, past the navigation', () => visit.overview());
      await t.test('a play, and its proof', () => visit.play());
      await t.test('packs and keys', () => visit.proof());
      await t.test('files on the page that verifies', () => visit.verify());
      await t.test('every other page of an auditor', () => visit.pages());
      visit.clean();
    } finally {
      await context.close();
    }
  });
}

// reachable is what a person can use on a page, in its order, and what reacts to a mouse alone. It runs on the page.
function reachable() {
  const usable = 'a[href], button, input:not([type="hidden"]), select, textarea, summary, [tabindex="0"]';
  const shown = (e) => e.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true }) && !e.disabled && e.tabIndex >= 0;
  const all = [...document.querySelectorAll(usable)].filter(shown);
  all.forEach((e, i) => { e.dataset.place = i; });
  const mouse = [...document.querySelectorAll('body *')].filter((e) => getComputedStyle(e).cursor === 'pointer' && !e.closest(`${usable}, label`)).map((e) => e.outerHTML.slice(0, 80));
  return { places: all.length, mouse, dialogs: document.querySelectorAll('dialog[open], [role="dialog"]').length, jumps: document.querySelectorAll('[tabindex]:not([tabindex="0"], [tabindex="-1"])').length };
}

// focused is where the keyboard is, and what is wrong with how it shows there. It runs on the page.
function focused() {
  const e = document.activeElement;
  if (e === null || e === document.body) return null;
  const name = (e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent).trim().replaceAll(/\s+/g, ' ').slice(0, 60);
  const style = getComputedStyle(e);
  const faults = [];
  if (style.outlineStyle === 'none' || Number.parseFloat(style.outlineWidth) < 2) faults.push('its focus does not show');
  const box = e.getClientRects()[0];
  if (!box || box.width === 0 || box.bottom <= 0 || box.top >= innerHeight || box.right <= 0 || box.left >= innerWidth) faults.push('it is out of sight');
  else {
    const x = Math.min(Math.max(box.left + Math.min(box.width / 2, 12), 1), innerWidth - 1);
    const y = Math.min(Math.max(box.top + Math.min(box.height / 2, 12), 1), innerHeight - 1);
    const top = document.elementFromPoint(x, y);
    if (top && !e.contains(top) && !top.contains(e)) faults.push(`it is behind ${top.outerHTML.slice(0, 60)}`);
  }
  return { name, place: e.dataset.place === undefined ? -1 : Number(e.dataset.place), tag: e.tagName.toLowerCase(), type: e.type ?? '', faults };
}

class Keyboard extends Looking {
  // start is where the keyboard is on a page that was opened. Without the focus on the body a browser goes on from where it was.
  async start() {
    await this.page.evaluate(() => {
      document.body.tabIndex = -1;
      document.body.focus();
      document.body.removeAttribute('tabindex');
      scrollTo(0, 0);
    });
  }

  // tab goes on by one stop, and requires that it shows.
  async tab() {
    await this.page.keyboard.press('Tab');
    const at = await this.page.evaluate(focused);
    if (at) assert.deepEqual(at.faults, [], `${this.page.url()}: “${at.name}” (${at.tag})`);
    return at;
  }

  // to goes on to a stop by its name.
  async to(name) {
    for (let n = 0; n < 200; n++) {
      const at = await this.tab();
      if (at && (typeof name === 'string' ? at.name === name : name.test(at.name))) return at;
    }
    return assert.fail(`${this.page.url()}: the keyboard does not get to “${name}”`);
  }

  async press(name, pressed = 'Enter') {
    await this.to(name);
    await this.page.keyboard.press(pressed);
  }

  // everything requires that the keyboard gets to all of the page, in the order in which it is read, and that nothing needs a mouse.
  async everything() {
    const { page } = this;
    await this.start();
    const { places, mouse, dialogs, jumps } = await page.evaluate(reachable);
    assert.deepEqual(mouse, [], `${page.url()}: what only a mouse can use`);
    assert.equal(dialogs, 0, `${page.url()}: a dialog is open that nothing has opened`);
    assert.equal(jumps, 0, `${page.url()}: the order is not that of the page`);
    const seen = [];
    for (let n = 0; n < places + 40; n++) { // fields of a time have several stops each
      const at = await this.tab();
      if (!at || seen.length > 1 && at.place === seen[0]) break; // behind the last stop is the window, or the first one again
      if (at.place >= 0 && at.place !== seen.at(-1)) seen.push(at.place);
    }
    assert.deepEqual(seen, [...seen].sort((a, b) => a - b), `${page.url()}: the order is that of the page`);
    assert.equal(seen.length, places, `${page.url()}: what the keyboard does not get to: ${await page.evaluate((got) => [...document.querySelectorAll('[data-place]')].filter((e) => !got.includes(Number(e.dataset.place))).map((e) => e.outerHTML.slice(0, 80)).join(' '), seen)}`);
  }

  async signIn() {
    const { page } = this;
    await page.goto(`${url}/console/plays`);
    await this.everything();
    await this.start();
    await this.to('API key');
    await page.keyboard.type('mun_test_nonsense');
    await page.keyboard.press('Enter');
    await page.getByText('the API key is not valid').waitFor();
    await this.start();
    await this.to('API key');
    await page.keyboard.type(key);
    await page.keyboard.press('Enter');
    await page.waitForURL(`${url}/console/plays`);
  }

  async overview() {
    const { page } = this;
    await page.goto(`${url}/console`);
    await this.everything();
    await this.start();
    assert.equal((await this.tab()).name, 'Skip to the page');
    await page.keyboard.press('Enter');
    await this.tab();
    assert.equal(await page.evaluate(() => document.querySelector('main').contains(document.activeElement)), true, 'past the navigation');
    await this.press('The numbers');
    await this.to('Plays by hour');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: 'Plays by hour' }).waitFor({ state: 'hidden' });
    await this.start();
    await this.press('Plays');
    await page.waitForURL(`${url}/console/plays`);
  }

  async play() {
    const { page } = this;
    await this.everything();
    await this.start();
    const first = (await page.locator('tbody a').first().innerText()).trim();
    await this.press(first);
    await page.waitForURL(/\/plays\/rcp_/);
    await this.everything();
    await this.start();
    await this.press('Verify here');
    await page.locator('.outcome.good').getByText('Sound').waitFor({ timeout: 120_000 });
    await this.everything();
    await this.start();
    const [proof] = await Promise.all([page.waitForEvent('download'), this.press('Download the proof')]);
    assert.match(readFileSync(await proof.path(), 'utf8'), /"proof":"c2sp\.org/);
    await this.start();
    await this.press('Proof');
    await page.waitForURL(`${url}/console/proof`);
  }

  async proof() {
    const { page } = this;
    await this.everything();
    await this.start();
    await this.press('Download packs');
    const [all] = await Promise.all([page.waitForEvent('download'), this.press('Download as ZIP')]);
    this.archive = await all.path();
    const text = readFileSync(this.archive, 'latin1');
    assert.match(all.suggestedFilename(), /^packs\.zip$/);
    assert.equal(text.slice(0, 4), 'PK\x03\x04');
    assert.notEqual(text.lastIndexOf('PK\x05\x06'), -1, 'it is whole');
    await this.start();
    const name = (await page.locator('tbody a').first().innerText()).trim();
    await this.press(name);
    await page.waitForURL(/\/proof\/ppk_/);
    await this.everything();
    await this.start();
    const [pack] = await Promise.all([page.waitForEvent('download'), this.press('Download the pack')]);
    this.pack = { name: 'pack.ndjson', mimeType: 'application/x-ndjson', buffer: readFileSync(await pack.path()) };
  }

  async verify() {
    const { page } = this;
    const verdict = (title) => page.locator('#report h2').getByText(title, { exact: true }).waitFor({ timeout: 120_000 });
    const choose = async (...files) => {
      const [chooser] = await Promise.all([page.waitForEvent('filechooser'), this.press('Choose files, or drop them here', 'Space')]);
      await chooser.setFiles(files);
    };
    await page.goto(`${url}/verify`);
    await this.everything();
    await this.start();
    assert.equal((await this.tab()).name, 'Skip to the files');
    await page.keyboard.press('Enter');
    await choose(this.pack);
    await verdict('Sound');
    await this.everything();
    await this.start();
    await this.press('Trust a root key instead of this service');
    await this.to('Root key');
    await page.keyboard.type(root);
    await page.getByText('Nobody else had to be trusted').waitFor({ timeout: 120_000 });
    await page.evaluate(() => { window.print = () => { document.title = 'printed'; }; });
    await this.press('Print as a certificate');
    assert.equal(await page.title(), 'printed');

    // An archive is not evidence, and the page says what to do with it. What was removed leaves the keyboard where more can be chosen.
    await this.start();
    await this.press('Remove pack.ndjson');
    assert.equal((await page.evaluate(focused)).type, 'file');
    await this.start();
    await choose(this.archive);
    await verdict('Can’t be judged');
    await page.getByText('unpack it, and give the files in it, all at once').first().waitFor();
    await this.everything();
  }

  async pages() {
    for (const path of ['/proof?month=2020-01', '/requests', '/data', '/erasures', '/data/new', '/disputes', '/money/statements']) {
      await this.page.goto(`${url}/console${path}`);
      await this.everything();
    }
  }
}

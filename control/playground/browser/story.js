// A visit to the playground, in Chromium: everything that a visitor can do, at two widths and in two
// colour schemes. URL is where a service is, which lets one address do much; PACK a file with a pack
// of another service; CHROMIUM the browser; SHOTS a folder for pictures, if they are wanted.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { launch, Looking, views } from './look.js';

const url = process.env.URL;
const browser = await launch();
test.after(() => browser.close());

for (const [device, viewport, colorScheme] of views) {
  test(`a visit, ${device}, ${colorScheme}`, { timeout: 120_000 }, async (t) => {
    const context = await browser.newContext({ viewport, colorScheme, reducedMotion: 'reduce' });
    const page = await context.newPage();
    const visit = new Visit(page, url, `${device}-${colorScheme}`);
    try {
      await t.test('a sandbox, and its picture', () => visit.begin());
      await t.test('rights, offers and challenges', () => visit.change());
      await t.test('deliveries that pass and fail', () => visit.deliver());
      await t.test('a pack, verified and altered', () => visit.prove());
      await t.test('a pack from elsewhere', () => visit.choose());
      await t.test('a key of one’s own', () => visit.activate());
      await t.test('starting over', () => visit.restart());
      visit.clean();
    } finally {
      await context.close();
    }
  });
}

class Visit extends Looking {
  constructor(page, ...rest) {
    super(page, ...rest);
    this.loaded = []; // of the verifier
    page.on('request', (r) => { if (new URL(r.url()).pathname.startsWith('/verify')) this.loaded.push(r.url()); });
  }

  async begin() {
    const { page } = this;
    await page.goto(`${url}/`);
    assert.equal(page.url(), `${url}/playground`);
    await page.getByText('The gate’s catalogue').waitFor({ state: 'detached' });
    assert.equal(await page.locator('#requests li').count(), 0, 'nothing was asked for the visitor yet');
    assert.ok(await page.getByRole('button', { name: 'Deliver now' }).evaluate((b) => b.getBoundingClientRect().bottom <= innerHeight), 'to deliver is in sight');
    assert.deepEqual(this.loaded, [], 'nothing of the verifier is loaded before somebody verifies');
    await this.look('first');
    // The keyboard alone leads from the top of the page to a sandbox.
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the steps');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'start');
    await page.keyboard.press('Enter');
    await page.locator('#lineage svg').waitFor();
    assert.equal(await page.locator('#lineage [aria-label^="Basis"]').count(), 3);
    assert.equal(await page.locator('#lineage [aria-label^="Right"]').count(), 4);
    await page.getByText('Live: what is delivered').waitFor();
  }

  // pick chooses a record in the picture by the keyboard.
  async pick(label) {
    await this.page.locator(`#lineage [aria-label^="${label}"]`).first().focus();
    await this.page.keyboard.press('Enter');
    await this.page.locator(`#lineage [aria-label^="${label}"][aria-pressed="true"]`).first().waitFor();
  }

  // does an action of the record that is chosen.
  async does(action) {
    const record = this.page.locator('#record');
    await this.button(action, record).first().click();
    const form = record.locator('form');
    assert.match(await form.locator('pre').innerText(), /^curl -s 'http/);
    await form.locator('button.primary, button.danger').last().click();
  }

  async change() {
    const { page } = this;
    const shows = (label) => page.locator(`#lineage [aria-label^="${label}"]`).first().waitFor();
    await this.pick('Right DOOH');
    await this.does('Suspend');
    await shows('Right DOOH, SUSPENDED');
    await this.does('Resume');
    await shows('Right DOOH, ACTIVE');
    await this.does('Propose an offer');
    await shows('Offer to org_partner, PROPOSED');
    await this.pick('Offer to org_partner');
    await this.does('Counter');
    await shows('Offer to org_partner, COUNTERED');
    await page.locator('#lineage [aria-label*=", PROPOSED"]').first().focus();
    await page.keyboard.press('Space');
    await this.does('Accept');
    await shows('Derived right DOOH, ACTIVE');
    await this.pick('Right CTV');
    await this.does('Open a challenge');
    await shows('Challenge the campaign is ours, OPEN');
    await this.pick('Challenge');
    await this.does('Uphold');
    await shows('Right CTV, REVOKED');
    await this.look('rights');
    // What the service refuses is said where it was asked.
    await this.pick('Right MOBILE');
    await this.button('Propose an offer', page.locator('#record')).click();
    await page.getByLabel('To organisation').fill('nobody');
    await page.locator('#record form button.primary').click();
    await page.locator('#record').getByText('toOrgId').last().waitFor();
  }

  async deliver() {
    const { page } = this;
    const form = page.locator('#delivery-form');
    const result = page.locator('#delivery-result');
    await this.button('Deliver').click();
    await result.getByText('Signed, and durable').waitFor();
    await page.locator('#receipts table').waitFor();
    const sent = JSON.parse((await page.locator('#delivery-send pre').innerText()).split("-d '")[1].slice(0, -1));
    assert.equal(sent.spatialAnchorId, 'screen-0042');
    // A substrate without a right: one is issued, and each of its examples fails as it says.
    await form.getByLabel('Substrate', { exact: true }).selectOption('DRONE');
    await this.button('Issue a right on DRONE').click();
    await form.getByLabel('Right', { exact: true }).waitFor();
    await this.button('Deliver').click();
    await result.getByText('The gate of DRONE let it pass').waitFor();
    for (const rule of ['DRONE_REMOTE_ID_MISSING', 'DRONE_BVLOS_WAIVER_MISSING']) {
      await form.getByLabel('An example that fails').selectOption(rule);
      await this.button('Deliver').click();
      await result.locator('.violations').getByText(rule).waitFor();
      assert.match(await result.innerText(), /The rule: refuse (when|unless)/);
    }
    await page.locator('#figures').getByText('DRONE_REMOTE_ID_MISSING').waitFor();
    assert.match(await page.locator('#figures svg').first().getAttribute('aria-label'), /p50 is .* ms, p99 is/);
    await this.look('deliver');
  }

  async prove() {
    const { page } = this;
    await page.getByLabel('Deliveries to make first').fill('20');
    await page.route('**/verify/program.js', (route) => route.fulfill({ status: 404, body: '{}' })); // as a build without it
    await this.button('Deliver and seal').click();
    await page.locator('.outcome.open').getByText('has no verifier for browsers').waitFor();
    await page.unroute('**/verify/program.js');
    await this.button(/^Verify ppk_/).click();
    await page.getByText('Verified in this browser').waitFor();
    assert.match(await page.locator('.outcome').innerText(), /entries and 22 signed receipts/);
    await page.getByText(/^22 receipts since/).waitFor(); // they came by the stream
    for (const check of ['signature.ok', 'checkpoint.ok', 'inclusion.ok', 'witness.ok', 'metering.ok']) await page.locator('.checks > li.passed').getByText(check, { exact: true }).waitFor();
    await page.locator('.outcome').getByText(/^These \d+ plays, .* were not changed since/).waitFor();
    await this.look('verified');
    await this.alter();
    await page.getByLabel('Filter').fill('drone');
    await page.locator('#explore').getByText(/^\d of \d+ entries/).waitFor();
    await page.locator('#explore').getByRole('button', { name: /^Look at leaf/ }).last().click();
    await page.locator('#explore').getByText(/^Its hash is leaf \d+ of the \d+ that make the root/).waitFor();
  }

  // alter has one character of the pack changed in each place that the page offers, and put back.
  async alter() {
    const { page } = this;
    for (const [part, code] of [['anchor', 'signature.invalid'], ['right', /entry.altered|witness.mismatch/], ['quantity', /entry.altered|witness.mismatch/], ['signature', 'signature.invalid'], ['header', 'signature.invalid']]) {
      await page.getByLabel('Alter one character of').selectOption(part);
      await this.button(/^Alter (it|another)/).click();
      await page.locator('.outcome.bad').waitFor();
      await page.locator('.checks .failed').getByText(code).first().waitFor();
      if (part !== 'header') {
        const named = /Entry (\d+) \(leaf (\d+)\)/.exec(await page.locator('.outcome').innerText());
        assert.match(await page.locator('#verdict mark').first().locator('..').innerText(), new RegExp(`entry ${named[1]},`), 'it names the entry that was altered');
      }
      if (part === 'anchor') await this.look('altered');
      await this.button('Put it back').click();
      await page.locator('.outcome.good').waitFor();
    }
  }

  async choose() {
    const { page } = this;
    await page.getByLabel('Verify a pack that you have').setInputFiles(process.env.PACK);
    await page.locator('.outcome.open').getByText('Can’t be judged').waitFor();
    await page.locator('.checks .open').getByText('key.unknown').waitFor();
    await page.getByText('Trust a root key instead of this service').click();
    await page.getByLabel('Root key').fill(process.env.ROOT);
    await page.getByLabel('Verify a pack that you have').setInputFiles([]);
    await page.getByLabel('Verify a pack that you have').setInputFiles(process.env.PACK);
    await page.locator('.outcome.good').getByText('the root key that you gave').waitFor();
    await this.alter();
    await page.getByLabel('Verify a pack that you have').setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('hello') });
    await page.locator('.outcome.open').getByText('Can’t be judged').waitFor();
    await page.locator('.checks .open').getByText('format.unknown').waitFor();
    assert.equal(await page.getByText('Try to get away with it').count(), 0);
  }

  async activate() {
    const { page } = this;
    // By a link of a service that activates nothing, and by one that does.
    for (const [status, body] of [[404, '{"ok":false,"error":"RESOURCE_NOT_FOUND","message":"there is nothing under this path","contractVersion":"v1.0"}'],
      [200, '{"ok":true,"data":{"tenantId":"tnt_1","orgId":"org_1","keyId":"key_1","apiKey":"mun_test_secret"},"contractVersion":"v1.0"}']]) {
      let token;
      await page.route('**/api/access/activate', (route) => {
        token = route.request().postDataJSON().token;
        return route.fulfill({ status, contentType: 'application/json', body });
      });
      await page.goto('about:blank');
      await page.goto(`${url}/playground#activate=tok%2Ben`);
      await page.locator('#activation').getByRole('button', { name: 'Activate' }).click();
      await page.locator('#activation').getByText(status === 200 ? 'It is shown this once' : 'does not activate keys').waitFor();
      assert.equal(page.url(), `${url}/playground`, 'the address keeps no token');
      assert.equal(token, 'tok+en');
      await page.unroute('**/api/access/activate');
    }
    await page.getByText('mun_test_secret').waitFor();
    await page.locator('#activation').getByLabel('Request').selectOption('delivery');
    await this.button('Send').click();
    await page.locator('#activation').getByText('Answered 401').waitFor(); // it is no key of this service
    assert.ok(!(await page.locator('#requests').innerText()).includes('mun_test_secret'), 'the log shows no key');
    assert.deepEqual(await page.evaluate(() => [localStorage.length, sessionStorage.length]), [0, 0]);
    await this.look('key');
    await page.reload();
    assert.equal(await page.getByText('mun_test_secret').count(), 0);
  }

  async restart() {
    const { page } = this;
    await page.locator('#lineage svg').waitFor(); // who comes back finds the sandbox
    await this.button('Start over').click();
    await page.getByText('Get a sandbox above').waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.id), 'start');
  }
}

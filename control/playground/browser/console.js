// Visits to the operators' page, in Chromium: what a person on call does there, at two widths and in two
// colour schemes. URL is the admin listener of a service, LINKS a link of muniment console for each
// visit; the service has a quarantined record and two applications for each.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { launch, Looking, views } from './look.js';

const url = process.env.URL;
const links = process.env.LINKS.split(' ');
const browser = await launch();
test.after(() => browser.close());

for (const [i, [device, viewport, colorScheme]] of views.entries()) {
  test(`the console, ${device}, ${colorScheme}`, { timeout: 120_000 }, async (t) => {
    const context = await browser.newContext({ viewport, colorScheme, reducedMotion: 'reduce' });
    const visit = new Visit(await context.newPage(), url, `console-${device}-${colorScheme}`);
    try {
      await t.test('locked without a session', () => visit.locked());
      await t.test('opened by a link', () => visit.open(links[i]));
      await t.test('what is in order', () => visit.calm());
      await t.test('refusals by the keyboard', () => visit.refusals());
      await t.test('a record is released', () => visit.release());
      await t.test('applications are decided', () => visit.decide());
      await t.test('what is not in order', () => visit.alarm());
      await t.test('what is away', () => visit.away());
      await t.test('inline script is refused', () => visit.inject());
      await t.test('the end of the session', () => visit.leave());
      visit.clean();
    } finally {
      await context.close();
    }
  });
}

class Visit extends Looking {
  card(id) {
    return this.page.locator(`#${id} .body`);
  }

  tile(id) {
    return this.page.locator(`#summary [data-panel="${id}"]`);
  }

  async locked() {
    const { page } = this;
    await page.goto(`${url}/console`);
    await page.locator('#locked').getByText('This page needs a session.').waitFor();
    await page.goto('about:blank');
    await page.goto(`${url}/console#${'x'.repeat(43)}`);
    await page.locator('#locked').getByText('This link was used, has expired').waitFor();
    assert.equal(page.url(), `${url}/console`, 'the address keeps no token');
    assert.equal(await page.locator('#panels').isVisible(), false);
    await this.look('locked');
  }

  async open(link) {
    const { page } = this;
    await page.goto(link); // in the same tab
    await page.getByText(/^Session until \d\d:\d\d$/).waitFor({ state: 'attached' });
    assert.equal(page.url(), `${url}/console`, 'the address keeps no token');
    const cookies = await page.context().cookies();
    assert.equal(cookies.length, 1);
    assert.deepEqual([cookies[0].httpOnly, cookies[0].sameSite, cookies[0].path], [true, 'Strict', '/console']);
    const left = cookies[0].expires - Date.now() / 1000;
    assert.ok(left > 3500 && left <= 3600, `it lasts ${left} s`);
    assert.deepEqual(await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]), [0, 0, '']);
    await page.reload(); // the session goes on
    await page.getByText(/^Session until/).waitFor({ state: 'attached' });
  }

  async calm() {
    const { page } = this;
    for (const id of ['ready', 'nodes', 'lag', 'spool', 'drift', 'refusals', 'quarantine', 'applications']) {
      await this.card(id).getByText('Loading…').waitFor({ state: 'detached' });
      await this.tile(id).waitFor();
    }
    assert.match(await this.tile('ready').innerText(), /ready/);
    assert.match(await this.tile('nodes').innerText(), /1 of 1 live/);
    await this.card('nodes').getByRole('img', { name: /, live/ }).waitFor();
    await this.tile('lag').getByText('caught up').waitFor();
    await this.card('spool').getByText('All spools are empty.').waitFor();
    await this.tile('drift').getByText('checked here').waitFor();
    await this.tile('quarantine').getByText('hold sealing').waitFor();
    await this.tile('applications').getByText('waiting').waitFor();
    assert.match(await this.card('ready').innerText(), /sealing[\s\S]*quarantined records/);
    await this.look('calm');
    // The keyboard alone leads to a panel.
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the panels');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.waitForURL(/#ready$/);
  }

  async refusals() {
    const card = this.card('refusals');
    const label = await card.getByRole('img').getAttribute('aria-label');
    assert.match(label, /automotive-speed: 11/);
    await this.button('1 hour').focus();
    await this.page.keyboard.press('Space');
    await this.page.locator('#refusals [data-hours="1"][aria-pressed="true"]').waitFor();
    await card.getByRole('img', { name: /automotive-speed: 11/ }).waitFor();
  }

  async release() {
    const { page } = this;
    const dialog = page.getByRole('dialog');
    const rows = this.card('quarantine').locator('tbody tr');
    const before = await rows.count();
    await rows.first().getByRole('button').focus();
    await page.keyboard.press('Enter');
    await dialog.getByText('This can’t be undone').waitFor();
    await this.look('release');
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    assert.equal(await rows.count(), before, 'nothing was released');
    await rows.first().getByRole('button').click();
    await dialog.getByRole('button', { name: 'Release for good' }).click();
    assert.equal(await dialog.isVisible(), true, 'a reason is required');
    await dialog.getByLabel('Reason').fill('drill');
    await dialog.getByRole('button', { name: 'Release for good' }).click();
    await dialog.waitFor({ state: 'hidden' });
    if (before > 1) await page.waitForFunction((n) => document.querySelectorAll('#quarantine tbody tr').length === n, before - 1);
    else await this.card('quarantine').getByText('No record holds sealing.').waitFor();
  }

  async decide() {
    const { page } = this;
    const dialog = page.getByRole('dialog');
    const rows = this.card('applications').locator('tbody tr');
    const before = await rows.count();
    const address = await rows.first().locator('.email').innerText();
    await rows.first().getByRole('button', { name: `Approve ${address}` }).click();
    await dialog.getByRole('button', { name: 'Approve' }).click();
    await dialog.waitFor({ state: 'hidden' });
    await page.waitForFunction((n) => document.querySelectorAll('#applications tbody tr').length === n, before - 1);
    await rows.first().getByRole('button', { name: /^Refuse / }).click();
    await this.look('refuse');
    await dialog.getByRole('button', { name: 'Refuse' }).click();
    await dialog.waitFor({ state: 'hidden' });
    if (before > 2) await page.waitForFunction((n) => document.querySelectorAll('#applications tbody tr').length === n, before - 2);
    else await this.card('applications').getByText('No application waits.').waitFor();
    await this.button('All').click();
    await rows.filter({ hasText: address }).getByText('APPROVED').waitFor();
    await rows.filter({ hasText: address }).getByText('Example Ltd: Trying it out').waitFor();
    // What another operator has decided meanwhile is said in the dialog.
    const sent = [];
    page.on('request', (r) => { if (r.url().endsWith('/approve')) sent.push(r.postDataJSON()); });
    await page.route('**/approve', (route) => route.fulfill({ status: 409, contentType: 'application/json', body: '{"ok":false,"error":"STATE_CONFLICT","message":"application is already REFUSED"}' }));
    await rows.filter({ hasText: address }).getByRole('button', { name: /^Send another/ }).click();
    await dialog.getByRole('button', { name: 'Send' }).click();
    await dialog.getByText('application is already REFUSED').waitFor();
    assert.deepEqual(sent, [{ state: 'APPROVED' }], 'what the operator saw');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.unroute('**/approve');
    await this.late(rows.filter({ hasText: address }).getByRole('button', { name: /^Send another/ }));
  }

  // late: a dialog waits for its answer, and one that comes too late does not close another dialog.
  async late(button) {
    const { page } = this;
    const dialog = page.getByRole('dialog');
    let requested;
    const arrived = new Promise((resume) => { requested = resume; });
    await page.route('**/approve', requested);
    await button.click();
    await dialog.getByRole('button', { name: 'Send' }).click();
    const route = await arrived;
    assert.equal(await dialog.getByRole('button', { name: 'Cancel' }).isDisabled(), true);
    await page.keyboard.press('Escape');
    assert.equal(await dialog.isVisible(), true, 'it waits');
    await page.evaluate(() => document.getElementById('confirm').close()); // as Esc does when pressed again
    await button.click();
    const answered = page.waitForResponse('**/approve');
    await route.fulfill({ status: 200, contentType: 'application/json', body: '{"ok":true,"data":{}}' });
    await answered;
    await page.evaluate(() => fetch('/readyz')); // the page has the answer before this one
    assert.equal(await dialog.isVisible(), true, 'it is another one');
    assert.equal(await dialog.getByRole('button', { name: 'Send' }).isEnabled(), true);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.unroute('**/approve');
  }

  // alarm shows what this service never is, from answers of another one.
  async alarm() {
    const { page } = this;
    const answer = (data) => (route) => route.fulfill({ status: 200, contentType: 'application/json', body: JSON.stringify({ ok: true, data }) });
    const node = (nodeId, ageMs, spooled, live, name = '') => ({ nodeId, name, ageMs, spooled, live, epoch: 2, appliedRevision: 4711, expelled: false, leaving: false });
    await page.route('**/api/nodes', answer({ leaseMs: 33_000, total: 4, nodes: [node('nod_01M87C2TP6P95NVZ5FY5H04DXD', 95_000, 1200, false, 'edge-ams-2.example'), node('nod_01M87C2TP6P95NVZ5FY5H04DXE', 20_000, 40, true, 'edge-fra-1.example'), node('nod_01M87C2TP6P95NVZ5FY5H04DXF', 2100, 0, true), node('nod_01M87C2TP6P95NVZ5FY5H04DXG', 900, 0, true)] }));
    await page.route('**/api/drift', answer({ checking: true, drift: { missing: 2, invented: 0, duplicates: 0, pack: 1, statement: 0 }, checked: { rows: 81920, packs: 12, statements: 0 }, failures: 1 }));
    await page.route('**/api/lag', answer({ behind: 250_000, partitions: [0, 1].map((partition) => ({ partition, loaded: `1.${partition}.1000`, end: `1.${partition}.126000`, behind: 125_000 })) }));
    await page.route('**/api/applications*', answer({ waiting: 3, failedMails: 1, applications: [], more: false }));
    await page.reload();
    await this.tile('applications').getByText('1 mail failed').waitFor(); // though none of those that are listed has one
    await this.tile('nodes').getByText('1 silent').waitFor();
    await this.tile('spool').getByText('of silent nodes').waitFor();
    await this.card('drift').getByText('2', { exact: true }).waitFor();
    await this.tile('lag').getByText('not falling').waitFor();
    assert.match(await page.title(), /^\(\d\) Muniment console$/);
    await this.card('lag').getByText('2 partitions').click();
    await this.card('lag').getByRole('region', { name: 'Partitions of the log' }).waitFor();
    await this.card('lag').getByText('It does not change.').waitFor(); // from a few polls on
    assert.equal(await this.card('lag').getByRole('region', { name: 'Partitions of the log' }).isVisible(), true, 'what is unfolded stays so');
    await page.evaluate(() => scrollTo(0, 0));
    await this.look('alarm');
    await this.silence(answer);
    await this.unchecked(answer);
  }

  // silence: nodes that have all been silent for long are no longer listed, and are not forgotten.
  async silence(answer) {
    const { page } = this;
    const none = { leaseMs: 33_000, total: 0, nodes: [] };
    await page.route('**/api/nodes', answer({ ...none, registered: true }));
    await page.locator('#summary .bad[data-panel="nodes"]').getByText('none live').waitFor();
    await this.card('nodes').getByText('all deliveries are refused').waitFor();
    await page.route('**/api/nodes', answer({ ...none, registered: false }));
    await page.locator('#summary .plain[data-panel="nodes"]').getByText('none joined').waitFor();
  }

  // unchecked: what was not checked is not in order, and neither are checks that only fail.
  async unchecked(answer) {
    const { page } = this;
    const drift = { missing: 0, invented: 0, duplicates: 0, pack: 0, statement: 0 };
    const checks = (rows, failures) => answer({ checking: true, drift, checked: { rows, duplicates: 0, packs: 0, statements: 0 }, failures });
    const tile = (mood, word) => page.locator(`#summary .${mood}[data-panel="drift"]`).getByText(word).waitFor();
    await page.route('**/api/drift', checks(0, 0));
    await page.reload();
    await tile('plain', 'not checked yet');
    assert.equal(await this.card('drift').getByText('not checked yet').count(), 5);
    await page.route('**/api/drift', checks(12, 0));
    await tile('good', 'checked here');
    assert.equal(await this.card('drift').getByText('not checked yet').count(), 3);
    assert.equal(await this.card('drift').getByText('✓').count(), 2);
    await page.route('**/api/drift', checks(12, 1));
    await tile('warn', 'checks fail');
    await page.route('**/api/drift', checks(24, 1));
    await tile('good', 'checked here');
  }

  async away() {
    const { page } = this;
    for (const panel of ['lag', 'drift', 'nodes', 'applications*']) await page.unroute(`**/api/${panel}`);
    const message = "control can't reach the warehouse: dial tcp 127.0.0.1:9000: connect: connection refused";
    await page.route('**/api/lag', (route) => route.fulfill({ status: 503, contentType: 'application/json', body: JSON.stringify({ ok: false, error: 'INTERNAL_ERROR', reason: 'ENGINE_UNAVAILABLE', message }) }));
    await page.route('**/api/refusals*', (route) => route.abort());
    await page.reload();
    await this.card('lag').getByText(/^control can't reach the warehouse: .*, since \d\d:\d\d\.$/).waitFor();
    await this.card('refusals').getByText(/^control does not answer, since \d\d:\d\d\.$/).waitFor();
    await this.tile('nodes').getByText('1 of 1 live').waitFor(); // the others go on
    await this.tile('drift').waitFor();
    await this.look('away');
    await page.unroute('**/api/lag');
    await this.tile('lag').getByText('caught up').waitFor(); // by the next poll
    assert.equal(await this.card('lag').getByText("control can't reach").count(), 0);
    await page.unroute('**/api/refusals*');
  }

  async inject() {
    const { page } = this;
    const refused = await page.evaluate(async () => {
      const seen = new Promise((resume) => { addEventListener('securitypolicyviolation', (e) => resume(e.effectiveDirective), { once: true }); });
      const script = document.createElement('script');
      script.textContent = 'window.injected = true';
      document.body.append(script);
      return [await seen, window.injected];
    });
    assert.deepEqual(refused, ['script-src-elem', undefined]);
    this.faults = this.faults.filter((text) => !/Content Security Policy/.test(text)); // that very one
    // A page of another origin can't have the session change anything.
    const { origin } = new URL(url);
    const foreign = await page.context().request.delete(`${url}/console/api/session`, { headers: { Origin: origin.replace('127.0.0.1', 'localhost') } });
    assert.equal(foreign.status(), 403);
  }

  async leave() {
    const { page } = this;
    await this.button('End session').click();
    await page.locator('#locked').getByText('You have ended the session.').waitFor();
    assert.equal(await page.locator('#panels').isVisible(), false);
    await page.reload();
    await page.locator('#locked').getByText('This page needs a session.').waitFor();
  }
}

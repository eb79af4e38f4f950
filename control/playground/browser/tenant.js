// Visits to a tenant's console, in Chromium: what a rights manager, finance and an auditor do there, at two widths and in
// two colour schemes. URL is the API of a service, KEY a key of the tenant with all scopes, READER one that only
// reads. The tenant has plays on each right, one of which is disputed, a rule, an issued statement and drafts, and a pack; and a right, City sound, for
// two regions, which ends in 20 days with its basis.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { launch, Looking, views } from './look.js';

const { URL: url, KEY: key, READER: reader } = process.env;
const browser = await launch();
test.after(() => browser.close());

for (const [device, viewport, colorScheme] of views) {
  test(`the tenant's console, ${device}, ${colorScheme}`, { timeout: 420_000 }, async (t) => {
    const context = await browser.newContext({ viewport, colorScheme, reducedMotion: 'reduce', permissions: ['clipboard-read', 'clipboard-write'] });
    const visit = new Visit(await context.newPage(), url, `tenant-${device}-${colorScheme}`);
    try {
      await t.test('signing in', () => visit.signIn());
      await t.test('the overview', () => visit.overview());
      await t.test('a play, from its report to its proof', () => visit.play());
      await t.test('a right is suspended and resumed', () => visit.right());
      await t.test('what ends within 30 days', () => visit.ending());
      await t.test('an offer is countered, and its counter accepted', () => visit.offer());
      await t.test('a challenge is answered', () => visit.challenge());
      await t.test('a right is derived within the limits of another', () => visit.derive());
      await t.test('every other page', () => visit.pages());
      await t.test('a rule is tried', () => visit.rule());
      await t.test('a statement and its papers', () => visit.statement());
      await t.test('what finance asks', () => visit.finance());
      await t.test('what is due, and a draft that was overtaken', () => visit.duties());
      await t.test('a dispute', () => visit.dispute());
      await t.test('an export of a person, and an erasure', () => visit.person());
      await t.test('a key, copied and downloaded', () => visit.key());
      await t.test('inline script is refused', () => visit.inject());
      await t.test('signing out', () => visit.signOut());
      visit.clean();
    } finally {
      await context.close();
    }
  });
}

test('reading works without script', { timeout: 60_000 }, async () => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  try {
    const page = await context.newPage();
    await page.goto(`${url}/console/plays`);
    await page.getByLabel('API key').fill(reader);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(`${url}/console/plays`);
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await page.getByRole('heading', { name: 'Sealed' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Verify here' }).isVisible(), false, 'no button that does nothing');
    await page.getByRole('link', { name: 'Rights', exact: true }).first().click();
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await page.getByRole('heading', { name: 'Family' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'Suspend…' }).count(), 0, 'it only reads');
    const answer = await page.goto(`${page.url()}/suspend`);
    assert.equal(answer.status(), 403);
    await page.getByText('rights:write').first().waitFor();
  } finally {
    await context.close();
  }
});

class Visit extends Looking {
  async open(path) {
    const answer = await this.page.goto(`${url}/console${path}`);
    assert.equal(answer.status(), 200, path);
  }

  link(name) {
    return this.page.getByRole('link', { name, exact: true }).first();
  }

  async signIn() {
    const { page } = this;
    await page.goto(`${url}/console/keys`);
    await page.getByLabel('API key').fill('mun_test_nonsense');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('the API key is not valid').waitFor();
    await this.look('refused');
    await page.getByLabel('API key').fill(key);
    await page.keyboard.press('Enter');
    await page.waitForURL(`${url}/console/keys`); // where the visit was going
    const cookies = await page.context().cookies();
    assert.equal(cookies.length, 1);
    assert.deepEqual([cookies[0].httpOnly, cookies[0].sameSite], [true, 'Lax']);
    assert.deepEqual(await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]), [0, 0, '']);
  }

  async overview() {
    const { page } = this;
    await this.open('');
    await page.getByRole('img', { name: /^Plays by hour: \d+ in these 24 hours/ }).waitFor();
    await page.getByText('The numbers').click();
    await page.getByRole('region', { name: 'Plays by hour' }).waitFor();
    await page.getByText('open dispute holds plays out of settlement').waitFor();
    await this.look('overview');
    await page.getByText('The requests behind this page').click();
    await page.locator('.behind').getByText(/^curl '.*\/v1\/metering/).first().waitFor();
  }

  async play() {
    const { page } = this;
    await this.link('Plays').click();
    await page.getByLabel(/^Anchor/).fill('a');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.waitForURL(/spatialAnchorId=a/); // which can be shared
    await this.look('plays');
    await page.locator('tbody tr').last().getByRole('link').first().click();
    for (const step of ['Reported', 'Decided', 'Signed', 'Durable', 'Loaded', 'Sealed']) await page.getByRole('heading', { name: step, exact: true }).waitFor();
    await page.getByText(/^Rule by rule/).click();
    await page.getByRole('button', { name: 'Verify here' }).click();
    await page.locator('.outcome.good').getByText('Sound').waitFor();
    for (const check of ['inclusion.ok', 'witness.ok', 'signature.ok']) await page.locator('.checks .passed').getByText(check).waitFor();
    await this.look('play');
    // A proof with one altered character is not sound, and one of a key that nobody lists can't be judged.
    await page.route('**/proof', async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, body: (await answer.text()).replaceAll('"dwellMs":4200', '"dwellMs":4201') });
    });
    await page.getByRole('button', { name: 'Verify here' }).click();
    await page.locator('.outcome.bad').getByText('Not sound').waitFor();
    await page.unroute('**/proof');
    await page.route('**/keys.json', (route) => route.fulfill({ status: 404, body: '{}' }));
    await page.getByRole('button', { name: 'Verify here' }).click();
    await page.locator('.outcome.open').getByText('Can’t be judged').waitFor();
    await page.route('**/runtime-keys', (route) => route.fulfill({ status: 404, body: '{}' }));
    await page.getByRole('button', { name: 'Verify here' }).click();
    await page.locator('.outcome.open').getByText('the public keys of this service could not be loaded').waitFor();
    await page.unroute('**/keys.json');
    await page.unroute('**/runtime-keys');
  }

  async right() {
    const { page } = this;
    await this.link('Rights').click();
    await page.getByLabel('Medium').selectOption('DRONE');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.waitForURL(/substrate=DRONE/);
    await this.look('rights');
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await page.getByRole('heading', { name: 'Family' }).waitFor();
    const at = page.url();
    await this.link('Suspend…').click();
    await page.getByText('What will happen').waitFor();
    await page.getByLabel(/^Reason/).fill('drill');
    await this.look('suspend');
    await page.getByRole('button', { name: 'Suspend' }).click();
    await page.getByText('The right is suspended.').waitFor();
    await page.getByText('“drill”').first().waitFor();
    await page.getByText('are refused until somebody resumes it').waitFor();
    await this.look('suspended');
    assert.equal(page.url(), at); // what was done is no part of an address to share
    await this.link('Rows that wait').click();
    await page.waitForURL(/held\?rightId=rgh_/);
    await this.look('held-of-a-right');
    // Nobody forgets to resume it: the overview says that it is suspended.
    await this.open('');
    await page.getByText('right is suspended, and is not resumed by itself').waitFor();
    await this.link('Resume or revoke them').click();
    await page.locator('tbody tr').first().getByRole('link').first().click();
    assert.equal(page.url(), at);
    await this.link('Resume…').click();
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByText('The right is in force again.').waitFor();
  }

  async ending() {
    const { page } = this;
    const within = async (days) => {
      await page.getByLabel('Ends within').selectOption(`${days}`);
      await page.getByRole('button', { name: 'Filter' }).click();
      await page.waitForURL(new RegExp(`ends=${days}`)); // which can be shared
    };
    await this.link('Rights').click();
    await within(30);
    await page.getByText(/^\d+ rights? ends? within 30 days, until the end of /).waitFor();
    await page.getByRole('link', { name: 'City sound' }).first().waitFor();
    await this.look('rights-that-end');
    const [file] = await Promise.all([page.waitForEvent('download'), this.link('CSV').click()]);
    assert.equal(file.suggestedFilename(), 'rights-that-end-within-30-days.csv');
    await this.link('Bases that end then').click();
    await page.getByText(/^1 basis ends within 30 days, until the end of /).waitFor();
    await this.look('bases-that-end');
    await within(7);
    await page.getByText(/^No basis ends within 7 days/).waitFor();
    await this.look('nothing-ends');
  }

  // choose chooses a record by its name.
  async choose(label, name) {
    const select = this.page.getByLabel(label);
    await select.selectOption(await select.locator('option', { hasText: name }).first().getAttribute('value'));
  }

  // own is the name of the tenant's organisation.
  async own() {
    await this.open('');
    return (await this.page.locator('.lead').first().innerText()).split(' ')[0];
  }

  async offer() {
    const { page } = this;
    const own = await this.own();
    // The partner asks for a part of the right.
    await this.link('Offers').click();
    await this.link('New offer').click();
    await this.choose('Of the right', `City sound: audio of ${own}`);
    await page.getByRole('button', { name: 'Show what limits it' }).click();
    await page.getByText(/^The right has AT, DE|^The right has DE, AT/).waitFor();
    await page.getByText(/^Not after the right ends: the end of /).waitFor();
    await page.getByLabel(/^From/).fill('org_partner');
    await page.getByLabel('To', { exact: true }).fill(own);
    await page.getByLabel(/^Only in the regions/).fill('DE, AT');
    await this.look('new-offer');
    await page.getByRole('button', { name: 'Propose' }).click();
    await page.getByText('The offer is made.').waitFor();
    // It is answered from the overview.
    await this.open('');
    await page.getByText('offer waits for your answer').waitFor();
    await this.link('Answer them').click();
    await page.getByText('waits for you').first().waitFor();
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await page.getByRole('heading', { name: `org_partner to ${own}` }).waitFor();
    await this.look('offer');
    await this.link('Counter…').click();
    await page.getByLabel(/^Only in the regions/).fill('DE');
    await this.look('counter');
    await page.getByRole('button', { name: 'Send the counter-offer' }).click();
    await page.getByText('The counter-offer is made.').waitFor();
    await page.getByRole('heading', { name: 'What it changes' }).waitFor();
    await this.look('countered');
    // The partner counters in turn, which is accepted.
    await this.link('Counter for org_partner…').click();
    await page.getByLabel(/^In words/).fill('City sound, the west');
    await page.getByRole('button', { name: 'Send the counter-offer' }).click();
    await this.link('Accept…').click();
    await page.getByRole('button', { name: 'Accept' }).click();
    await page.getByText('The offer is accepted, and the derived right is issued.').waitFor();
    await this.look('accepted');
    await page.locator('dl').getByRole('link', { name: 'City sound, the west' }).click();
    await page.getByRole('heading', { name: 'City sound, the west' }).waitFor();
    await page.getByText('regions: DE').first().waitFor();
  }

  async challenge() {
    const { page } = this;
    const own = await this.own();
    await this.link('Challenges').click();
    await this.link('New challenge').click();
    await this.choose('Of the right', `City sound: audio of ${own}`);
    await page.getByLabel('By', { exact: true }).fill('org_rival');
    await page.getByLabel('Reason').fill('The hall is ours since May');
    await page.getByRole('button', { name: 'Open the challenge' }).click();
    await page.getByText('The challenge is open.').waitFor();
    await this.open('');
    await page.getByText('challenge of a right is open').waitFor();
    await this.link('Resolve them').click();
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await page.getByText('By itself it stops nothing while it is open').waitFor();
    await this.link('Withdraw for org_rival…').waitFor(); // nobody takes it for an act of the own side
    await this.look('challenge');
    await this.link('Resolve…').click();
    await page.getByLabel('Is it upheld?').selectOption('no');
    await page.getByLabel(/^Why/).fill('Contract 7 of 2 May: https://venue.example/contract-7');
    await this.look('answer');
    await page.getByRole('button', { name: 'Resolve' }).click();
    await page.getByText('It was not upheld: it changes nothing about the right.').waitFor();
    await page.getByText('Contract 7 of 2 May').waitFor();
    await this.look('answered');
  }

  async derive() {
    const { page } = this;
    await this.open('/rights?substrate=AUDIO');
    await page.getByRole('link', { name: 'City sound', exact: true }).last().click();
    await this.link('Derive a right…').click();
    await page.getByText(/^What .* limits stands beside the fields/).waitFor();
    await page.getByText(/^Not after the right ends: the end of /).waitFor();
    await this.look('derive');
    await page.getByLabel(/^Until/).fill('2099-01-01T00:00');
    await page.getByRole('button', { name: 'Issue the right' }).click();
    await page.getByText(/^is after the end of the parent right \(the end of \d+ \w+ \d{4}\)$/).waitFor();
    await this.look('derive-refused');
    await page.getByLabel(/^Until/).fill('');
    await page.getByLabel(/^In words/).fill('City sound, one hall');
    await page.getByRole('button', { name: 'Issue the right' }).click();
    await page.getByText('The right is issued.').waitFor();
    await page.getByRole('heading', { name: 'City sound, one hall' }).waitFor();
  }

  async pages() {
    for (const path of ['/offers', '/challenges', '/money', '/money/statements', '/money/counterparties', '/money/payouts', '/money/payables', '/money/payables?state=PAID', '/money/reconciliation', '/money/reconciliation?month=2020-01', '/proof?month=2020-01', '/plays?receiptId=ZZZZZZ',  '/money/rules/new', '/money/statements/new', '/disputes', '/proof', '/webhooks', '/kinds', '/kinds/right.issued', '/keys', '/requests', '/requests?code=RESOURCE_NOT_FOUND', '/data', '/erasures', '/held', '/rejected', '/bases', '/rights/new', '/bases/new', '/offers/new', '/challenges/new', '/rejected/dismiss', '/webhooks/new', '/data/new', '/erasures/new', '/disputes/new']) {
      await this.open(path);
      await this.look(path.slice(1).replaceAll(/[/?=]/g, '-'));
    }
  }

  async rule() {
    const { page } = this;
    await this.open('/money');
    await page.getByText(/^0\.005 EUR a second on everything: 60 % to .*, 40 % to /).waitFor();
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await this.link('Try one like it…').click();
    await page.getByLabel(/^Price/).fill('not a price');
    await page.getByRole('button', { name: 'Try it on last month' }).click();
    await page.getByRole('alert').waitFor();
    await page.getByLabel(/^Price/).fill('0.01');
    await page.getByRole('button', { name: 'Try it on last month' }).click();
    await page.getByText(/^If it had been in force in all of \w+ \d{4}, it would have paid /).waitFor();
    await this.look('tried');
  }

  async statement() {
    const { page } = this;
    await this.open('/money/statements');
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await page.getByRole('heading', { name: 'Lines' }).waitFor();
    await this.look('statement');
    const [paper] = await Promise.all([page.waitForEvent('download'), this.link('PDF').click()]);
    assert.equal(readFileSync(await paper.path(), 'latin1').slice(0, 5), '%PDF-');

    // The one that is issued: its lines can be recomputed, and a payment is of a payee by name.
    await this.open('/money/statements?state=ISSUED');
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await page.getByRole('region', { name: 'Lines of the statement' }).getByText('176.8').waitFor();
    await page.getByText('0.88 EUR open').waitFor();
    await this.look('issued');
    await this.link('Record a payment…').click();
    assert.deepEqual(await page.getByLabel('Payee').locator('option').allInnerTexts(), ['–', 'Song Rights Ltd: 0.53 EUR open', 'Venue Media: 0.35 EUR open', 'all of them: 0.88 EUR open']);
    await page.getByLabel(/^Reference/).fill('p-1');
    await page.getByLabel('Payee').selectOption({ label: 'Venue Media: 0.35 EUR open' }); // none is chosen before
    await page.getByLabel(/^Amount/).fill('0,1x');
    await page.getByRole('button', { name: 'Record' }).click();
    await page.getByText('is no number: write it as 4.28').waitFor();
    await this.look('payment');
  }

  async finance() {
    const { page } = this;
    // What a statement has more or less than the one before.
    await this.open('/money/statements?state=DRAFT');
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await this.link('Compare with the statement before').click();
    await page.getByRole('heading', { name: / against / }).waitFor();
    await this.look('comparison');
    // Whether the numbers of a statement agree, and which packs it rests on.
    await this.open('/money/statements?state=ISSUED');
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await this.link('Compare with the statement before').click();
    await page.getByRole('heading', { name: 'No statement before it' }).waitFor();
    await this.look('comparison-none');
    await page.goBack();
    await this.link('Compare it with packs and warehouse').click();
    await page.getByRole('heading', { name: /^The numbers of .* agree/ }).waitFor();
    await this.look('reconciliation');
    await page.goBack();
    await this.link('all packs it rests on').click();
    await page.getByRole('heading', { name: 'The packs of a statement' }).waitFor();
    await this.look('statement-packs');
    // A play, by what somebody reads out of its receipt's id.
    await this.open('/plays');
    const id = await page.locator('tbody tr').last().getByRole('link').last().getAttribute('title');
    await page.getByLabel(/^Receipt/).fill(id.slice(-6).toLowerCase());
    await page.getByRole('button', { name: 'Search' }).click();
    await page.waitForURL(/receiptId=/);
    assert.equal(await page.locator('tbody tr').count(), 1);
    await this.look('by-end');
    await page.getByLabel(/^Receipt/).fill('7Q2');
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByRole('alert').getByText('such as 7Q2ZDK').waitFor();
    await this.look('by-too-little');
    // What a stop costs.
    await this.open('/rights?substrate=DOOH');
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await this.link('Suspend…').click();
    await page.getByRole('heading', { name: 'What it earns' }).waitFor();
    await page.locator('.sumline').getByText(/EUR/).first().waitFor();
    await this.look('stop-in-money');
  }

  // duties are what is due to payees, by days and overdue, and a draft that something has overtaken.
  async duties() {
    const { page } = this;
    await this.open('/money/payables');
    await page.getByLabel('Issued from').fill('2026-01-01');
    await page.getByLabel('Due until').fill('2099-12-31');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.waitForURL(/issuedSince=2026-01-01/); // which can be shared
    assert.equal(await page.locator('tbody tr').count(), 2);
    await this.look('payables-by-days');
    await page.locator('p.buttons').getByRole('link', { name: 'Overdue' }).click();
    await page.getByRole('heading', { name: 'Nothing fits' }).waitFor();
    await this.look('overdue');
    await this.open('/money/statements?state=DRAFT');
    await page.locator('tr', { hasText: 'another statement of the same was issued since' }).getByRole('link').first().click();
    await page.getByText('It can’t be issued any more: discard it, and correct that statement').waitFor();
    assert.equal(await page.getByRole('link', { name: 'Issue…' }).count(), 0);
    await this.look('stale');
    await this.link('Statements of the currency').click();
    await page.waitForURL(/currency=/);
  }

  // person is what is exported of a person, until an erasure deletes it.
  async person() {
    const { page } = this;
    const name = `person of ${this.name}`;
    await this.open('/data/new');
    await page.getByLabel('Of', { exact: true }).selectOption({ label: 'one person’s data' });
    await page.getByRole('button', { name: 'Prepare the export' }).click();
    await page.getByText('is missing').first().waitFor();
    await page.getByLabel(/^The person/).fill(name);
    await page.getByRole('button', { name: 'Prepare the export' }).click();
    await this.link('Run…').click();
    await page.getByRole('button', { name: 'Run' }).click();
    const bundle = page.getByRole('link', { name: 'Download the bundle, or give a link…' });
    for (const until = Date.now() + 60_000; await bundle.count() === 0; await page.reload()) assert.ok(Date.now() < until, 'the export is ready');
    const address = page.url();
    await this.look('export');
    await this.open('/erasures/new');
    await page.getByLabel('The person').fill(name);
    await page.getByRole('button', { name: 'Show what would be deleted' }).click();
    await page.getByText('Exports that were requested: 1').waitFor();
    await page.getByText(/^Bundles of exports: /).waitFor();
    await this.look('erase');
    await page.getByRole('button', { name: 'Erase for good' }).click();
    await page.getByText('The person is being erased.').waitFor();
    await this.look('erased');
    await page.goto(address);
    await page.getByText(/^Its bundle was deleted on .*, because a person was erased whose data it may have had\./).waitFor();
    assert.equal(await bundle.count(), 0);
    await this.look('export-deleted');
    await this.open('/data');
    await page.getByText(', because a person was erased').first().waitFor();
    await this.look('exports');
  }

  async dispute() {
    const { page } = this;
    await this.open('/disputes');
    await page.locator('tbody tr').first().getByRole('link').first().click();
    await page.getByRole('heading', { name: 'Evidence' }).waitFor();
    await page.locator('dd').getByText('0.021 EUR').waitFor(); // what it holds out of settlement
    await this.look('dispute');
    const plays = page.getByRole('region', { name: 'Disputed plays' });
    await plays.getByText('0.021 EUR').waitFor();
    await plays.getByText('4.2 s').waitFor();
    const address = page.url();
    const [sheet] = await Promise.all([page.waitForEvent('download'), this.link('CSV').click()]);
    assert.match(readFileSync(await sheet.path(), 'utf8'), /,Worth,Shown for \(ms\),Right,Receipt\n.*,0\.021 EUR,4200,rgh_.*,rcp_/);
    await plays.getByRole('link').first().click();
    await page.getByText('shown for 4.2 s, all of it billed').waitFor();
    await page.goto(address);
    await this.link('Resolve…').click();
    await page.getByText('Upheld: the plays are out of settlement for good.').waitFor();
    await this.look('resolve');
  }

  async key() {
    const { page } = this;
    await this.open('/keys/new');
    await page.getByLabel('What it is for').fill('a player');
    await page.getByLabel('delivery:write').check();
    await page.getByRole('button', { name: 'Make the key' }).click();
    const made = await page.locator('#secret').innerText();
    assert.match(made, /^mun_test_/);
    await this.look('key');
    await this.button('Copy', page.locator('.secret-box')).click();
    await page.getByText('Copied').first().waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), made);
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download .env' }).click()]);
    assert.equal(readFileSync(await file.path(), 'utf8'), `MUNIMENT_KEY=${made}\n`);
    await this.link('I have kept it').click();
    assert.equal(await page.getByText(made).count(), 0, 'it is shown once');
    await this.link('Revoke…').click();
    await page.getByRole('button', { name: 'Revoke for good' }).click();
    await page.getByText('The key is revoked for good.').waitFor();
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
  }

  async signOut() {
    const { page } = this;
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('You have signed out.').waitFor();
    await page.goto(`${url}/console/keys`);
    await page.getByLabel('API key').waitFor();
  }
}

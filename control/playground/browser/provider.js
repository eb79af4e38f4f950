// Sign-ins to a tenant's console at an OpenID Connect provider, in Chromium, at two widths and in two colour schemes. URL
// is the API of a service, and PROVIDER the provider, which is of another site and lets everybody in as a member of two
// tenants. TENANT is the id of one of them.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { launch, Looking, views } from './look.js';

const { URL: url, PROVIDER: provider, TENANT: tenant } = process.env;
const name = new URL(provider).host;
const browser = await launch();
test.after(() => browser.close());

// Each visit is from an address of its own, as sign-ins of one address are limited.
let visitors = 0;
const visitor = (how) => browser.newContext({ ...how, extraHTTPHeaders: { 'X-Forwarded-For': `192.0.2.${visitors += 1}` } });

const begin = async (page) => {
  await page.goto(`${url}/console/money`);
  await page.getByRole('button', { name: `Sign in at ${name}` }).waitFor();
};

const choose = async (page) => {
  await page.getByRole('heading', { name: 'Choose a tenant' }).waitFor();
  await page.getByRole('button', { name: tenant }).click();
  await page.waitForURL(`${url}/console/money`);
};

for (const [device, viewport, colorScheme] of views) {
  test(`a sign-in at a provider, ${device}, ${colorScheme}`, { timeout: 120_000 }, async () => {
    const context = await visitor({ viewport, colorScheme, reducedMotion: 'reduce' });
    try {
      const visit = new Looking(await context.newPage(), url, `provider-${device}-${colorScheme}`);
      const { page } = visit;
      await begin(page);
      await visit.look('sign-in');
      await context.route(`${provider}/**`, (route) => route.abort());
      await visit.button(`Sign in at ${name}`).click();
      await page.getByRole('link', { name: `Go to ${name}` }).waitFor();
      await context.unroute(`${provider}/**`);
      await begin(page);
      await visit.button(`Sign in at ${name}`).click(); // and the page is left by itself
      await page.getByRole('heading', { name: 'Choose a tenant' }).waitFor();
      await visit.look('choose');
      assert.equal(new URL(page.url()).searchParams.has('code'), false, 'the answer is in no address');
      await choose(page);
      await visit.button('Sign out').click();
      await page.getByText('you still are signed in there').waitFor();
      await visit.look('signed-out');
      await page.goto(`${url}/console/sign-in/callback?code=x&state=x`);
      await page.getByText('did not begin in this browser').waitFor();
      await visit.look('refused');
      await visit.button(`Try again at ${name}`).click();
      await page.getByRole('heading', { name: 'Choose a tenant' }).waitFor();
      assert.deepEqual(visit.elsewhere.filter((at) => !at.startsWith(`${provider}/`)), []);
      assert.deepEqual(visit.faults, []);
    } finally {
      await context.close();
    }
  });
}

test('a sign-in at a provider without script', { timeout: 60_000 }, async () => {
  const context = await visitor({ javaScriptEnabled: false });
  try {
    const page = await context.newPage();
    await begin(page);
    await page.getByRole('button', { name: `Sign in at ${name}` }).click();
    await choose(page);
  } finally {
    await context.close();
  }
});

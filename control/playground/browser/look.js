// What visits to all pages have in common: the browser, the views, and what is required of each.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
});

// views are two widths and two colour schemes.
export const views = [
  ['desktop', { width: 1280, height: 900 }, 'light'],
  ['desktop', { width: 1280, height: 900 }, 'dark'],
  ['phone', { width: 390, height: 844 }, 'light'],
  ['phone', { width: 390, height: 844 }, 'dark'],
];

// Looking is a visit to a page of url, by name. SHOTS is a folder for pictures, if they are wanted.
export class Looking {
  constructor(page, url, name) {
    Object.assign(this, { page, name, elsewhere: [], faults: [] });
    page.setDefaultTimeout(20_000);
    page.on('request', (r) => {
      if (!r.url().startsWith(`${url}/`) && !r.url().startsWith('data:')) this.elsewhere.push(r.url());
    });
    page.on('pageerror', (e) => this.faults.push(e.message));
    page.on('console', (m) => {
      // A browser logs each answer of 400 and more; that is no fault of the page.
      if (m.type() === 'error' && !m.text().startsWith('Failed to load resource')) this.faults.push(m.text());
    });
  }

  button(name, within = this.page) {
    return within.getByRole('button', { name, exact: typeof name === 'string' });
  }

  // look takes a picture, and has axe look at the page.
  async look(what) {
    const { page } = this;
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${this.name}-${what}.png`, fullPage: true });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${what}: it is wider than the screen`);
    const found = await this.faultsOfAxe();
    assert.deepEqual(found, [], `${what}: what axe finds`);
  }

  async faultsOfAxe() {
    await this.page.evaluate(axe); // not a script element: the policy would block it
    const { violations } = await this.page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    return violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(' ')).slice(0, 4).join(', ')}`);
  }

  // clean requires that no request left the origin and nothing failed.
  clean() {
    assert.deepEqual(this.elsewhere, [], 'requests that left the origin');
    assert.deepEqual(this.faults, []);
  }
}

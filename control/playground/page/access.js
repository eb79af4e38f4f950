// A key of one's own: applying for it, confirming that, activating it, and using it. It is kept in memory only.

import { curl, failure, send } from './api.js';
import { byID, code, copy, field, h, say, select, warn } from './dom.js';

const requests = [
  ['tenant', { path: '/v1/tenant' }],
  ['rights', { path: '/v1/rights' }],
  ['bases', { path: '/v1/bases' }],
  ['basis', { method: 'POST', path: '/v1/bases', body: { kind: 'CONTRACT', title: 'My first basis' } }],
  ['right', { method: 'POST', path: '/v1/rights', body: { basisId: 'bas_…', substrate: 'DOOH', scope: { campaigns: ['first'] }, effectiveFrom: '2026-01-01T00:00:00Z' } }],
  ['delivery', { method: 'POST', path: '/v1/delivery', body: { rightId: 'rgh_…', spatialAnchorId: 'screen-0042', dwellMs: 6800, telemetry: { viewable: true } } }],
  ['seal', { method: 'POST', path: '/v1/proof-packs/seal' }],
];

const panel = () => byID('activation');

// offer shows the button that uses the token of a link: opening the link alone must not, as mail scanners do that.
function offer(title, text, name, use) {
  const result = h('p', { role: 'status' });
  const button = h('button', {
    type: 'button', class: 'primary', onclick: async () => {
      button.disabled = true;
      button.disabled = await use(result);
    },
  }, name);
  panel().replaceChildren(h('h3', null, title), h('p', null, text), h('p', { class: 'buttons' }, button), result);
  byID('access').scrollIntoView();
}

// activate exchanges the token of an activation message for a key, which is shown this once.
const activate = (token) => offer('Activate your key', 'The key is shown here, once. Have a safe place ready for it.', 'Activate', async (result) => {
  const answer = await send({ method: 'POST', path: '/api/access/activate', body: { token }, cookie: false });
  if (answer.ok) {
    // The key comes first: above everything that leads a newcomer on.
    byID('main').prepend(byID('access'));
    byID('access-parts').classList.remove('split');
    byID('access-parts').replaceChildren(h('div', { class: 'panel', id: 'activation' }, ...issued(answer.data)));
    scrollTo(0, 0);
    say('Your key is active. It is shown this once.');
    return true;
  }
  const text = answer.status === 404 && !answer.data
    ? 'This service does not activate keys, or the link is not one of its own. Ask whoever sent it for the right address.'
    : failure(answer);
  warn(text);
  result.textContent = `The key could not be activated. ${text} A link works once, and for a limited time. You can apply again beside this.`;
  return false;
});

const confirm = (token) => offer('Confirm your application', 'You have applied for a key. Confirm that the address is yours.', 'Confirm', async (result) => {
  const answer = await send({ method: 'POST', path: '/api/access/confirm', body: { token }, cookie: false });
  result.textContent = answer.ok ? 'Your application is confirmed. If it is approved, a message with a link to this page comes to your address.' : failure(answer);
  return answer.ok;
});

// download saves the key as a file that programs read. It is made here.
function download(key) {
  const link = h('a', { href: URL.createObjectURL(new Blob([`MUNIMENT_KEY=${key}\n`], { type: 'text/plain' })), download: '.env' });
  link.click();
  URL.revokeObjectURL(link.href);
}

function issued({ tenantId, orgId, keyId, apiKey }) {
  const button = h('button', { type: 'button', class: 'primary', onclick: (e) => copy(apiKey, e.currentTarget) }, 'Copy');
  return [
    h('h3', null, 'Your key'), h('p', null, 'It is shown this once, and kept nowhere in this browser: when you leave the page it is gone. Copy it now.'),
    h('div', null, h('div', { class: 'secret', tabindex: '0', role: 'region', 'aria-label': 'Your API key' }, apiKey), h('p', { class: 'buttons' }, button, h('button', { type: 'button', onclick: () => download(apiKey) }, 'Download .env'), h('a', { class: 'button', href: '/console/sign-in' }, 'Open the console'))),
    h('p', { class: 'status' }, 'The console is the page of your tenant that stays: plays, rights, money and proof. Sign in there with this key.'),
    h('dl', null, h('dt', null, 'Tenant'), h('dd', { class: 'mono' }, tenantId), h('dt', null, 'Organisation'), h('dd', { class: 'mono' }, orgId), h('dt', null, 'Key id'), h('dd', { class: 'mono' }, keyId)),
    trying(apiKey),
  ];
}

// trying is a form for requests under /v1 with the key.
function trying(key) {
  const which = select(requests.map(([name, r]) => [name, `${r.method ?? 'GET'} ${r.path}`]), 'tenant');
  const text = h('textarea', { spellcheck: 'false' });
  const bodyField = field('Body', text);
  const command = code('', 'Copy the curl command');
  const result = h('div', { 'aria-live': 'polite' });
  const request = () => {
    const { method, path, body } = requests.find(([name]) => name === which.value)[1];
    return { method, path, key, body: body === undefined ? undefined : JSON.parse(text.value) };
  };
  const preview = () => {
    try {
      command.firstChild.textContent = curl(request());
    } catch {
      command.firstChild.textContent = 'The body is not JSON yet.';
    }
  };
  const choose = () => {
    const { body } = requests.find(([name]) => name === which.value)[1];
    bodyField.hidden = body === undefined;
    text.value = body === undefined ? '' : JSON.stringify(body, null, 2);
    preview();
  };
  which.addEventListener('change', choose);
  choose();
  return h('form', {
    oninput: preview,
    onsubmit: async (e) => {
      e.preventDefault();
      let asked;
      try {
        asked = request();
      } catch {
        result.replaceChildren(h('p', null, 'The body is not JSON yet.'));
        return;
      }
      const answer = await send(asked);
      let shown = answer.text;
      try {
        shown = JSON.stringify(JSON.parse(answer.text), null, 2);
      } catch { /* it is shown as it came */ }
      result.replaceChildren(h('p', null, answer.status === 0 ? answer.message : `Answered ${answer.status} in ${Math.round(answer.ms)} ms.`), answer.text !== '' && code(shown, 'Copy the answer'));
    },
  }, h('h4', null, 'Use it'), field('Request', which), bodyField, command, h('p', { class: 'buttons' }, h('button', { class: 'primary' }, 'Send')), result);
}

function applying() {
  const email = h('input', { type: 'email', required: true, autocomplete: 'email', maxlength: '254' });
  const organisation = h('input', { required: true, autocomplete: 'organization', maxlength: '200' });
  const use = h('textarea', { required: true, maxlength: '1000' });
  const request = () => ({ method: 'POST', path: '/api/access/apply', cookie: false, body: { email: email.value.trim(), organisation: organisation.value.trim(), use: use.value.trim() } });
  const command = code(curl(request()), 'Copy the curl command');
  const result = h('p', { role: 'status' });
  const submit = h('button', { class: 'primary' }, 'Apply');
  return h('form', {
    oninput: () => { command.firstChild.textContent = curl(request()); },
    onsubmit: async (e) => {
      e.preventDefault();
      submit.disabled = true;
      const answer = await send(request());
      submit.disabled = false;
      result.textContent = answer.ok
        ? 'Thank you. A message comes to that address: open its link and confirm that it is yours. If your application is approved, another one with a link to this page follows.'
        : answer.status === 404 ? 'This service takes no applications. Its operator can make you a key: muniment tenant create.' : failure(answer);
    },
  }, h('h3', null, 'Apply for a key'), field('E-mail', email, 'Where the activation message goes.'), field('Organisation', organisation), field('What you want to use it for', use), command, h('p', { class: 'buttons' }, submit), result);
}

const links = { '#activate=': activate, '#confirm=': confirm };

// startAccess takes the token out of the address before anything else happens, so that it is in no
// history, bookmark or picture of the screen.
export function startAccess() {
  const { hash } = location;
  const marker = Object.keys(links).find((m) => hash.startsWith(m));
  if (marker) history.replaceState(null, '', location.pathname + location.search);
  byID('access-parts').replaceChildren(h('div', null, applying()), h('div', { class: 'panel', id: 'activation' },
    h('h3', null, 'Activate it'), h('p', { class: 'status' }, 'The link in the activation message opens this page. Its button shows your key here, once.')));
  if (marker) links[marker](decoded(hash.slice(marker.length)));
}

// decoded is a token as its link spells it.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Sealing packs, listing them, and choosing one to verify.

import { curl, failure, send } from './api.js';
import { byID, code, field, h, put, say, table } from './dom.js';
import { clock, onChange, refresh, state } from './state.js';
import { judge, startVerdict } from './verdict.js';

let drawn = '';

function draw() {
  const packs = (state.inspection?.packs ?? []).toReversed();
  const now = JSON.stringify([state.inspection !== null, packs.map((p) => p.packId)]);
  if (now === drawn) return;
  drawn = now;
  if (!state.inspection) {
    put('packs', h('p', { class: 'status' }, 'With a sandbox you can seal a pack here. A pack from elsewhere can be verified without one.'));
    return;
  }
  put('packs', sealing(), packs.length > 0 && table('Packs of your sandbox, newest first',
    [{ name: 'Sealed' }, { name: 'Entries', number: true }, { name: 'What to do' }, { name: 'Pack' }],
    packs.map((p) => [clock(p.sealedAt), String(p.count), h('span', { class: 'buttons' },
      h('button', { type: 'button', class: 'small', onclick: () => open(p.packId), 'aria-label': `Verify ${p.packId}` }, 'Verify'),
      h('a', { class: 'button small', href: `/api/sandbox/proof-packs/${p.packId}`, download: `${p.packId}.json` }, 'Download')), h('code', null, p.packId)])));
}

function sealing() {
  const count = h('input', { type: 'number', min: '1', max: '100', value: '12', required: true });
  const request = () => ({ path: '/api/sandbox/run-demo', body: { eventCount: Number(count.value) } });
  const command = code(curl({ method: 'POST', ...request() }), 'Copy the curl command');
  const result = h('p', { class: 'status', role: 'status' });
  const submit = h('button', { class: 'primary' }, 'Deliver and seal');
  return h('form', {
    oninput: () => { command.firstChild.textContent = curl({ method: 'POST', ...request() }); },
    onsubmit: async (e) => {
      e.preventDefault();
      submit.disabled = true;
      const done = ticking(result, `Delivering ${count.value}, and sealing them`);
      const answer = await send({ method: 'POST', ...request() });
      done();
      submit.disabled = false;
      result.textContent = answer.ok ? '' : failure(answer);
      if (!answer.ok) return;
      await refresh();
      say(`The pack ${answer.data.packId} is sealed`);
      await open(answer.data.packId);
    },
  },
  h('div', { class: 'fields' }, field('Deliveries to make first', count, '1 to 100. What you have delivered yourself is sealed with them.')),
  command, h('p', { class: 'buttons' }, submit), result);
}

// ticking shows that something goes on, and for how long; what it returns ends it.
function ticking(at, what) {
  const began = performance.now();
  const seconds = h('span', { 'aria-hidden': 'true' }, ' 0 s');
  at.replaceChildren(`${what}…`, seconds, h('progress', { 'aria-label': what }));
  const timer = setInterval(() => { seconds.textContent = ` ${Math.floor((performance.now() - began) / 1000)} s`; }, 200);
  return () => clearInterval(timer);
}

// open fetches a pack as the very bytes that are served, and verifies it.
async function open(packId) {
  const answer = await send({ path: `/api/sandbox/proof-packs/${packId}` });
  if (!answer.ok) {
    put('verdict', h('p', null, failure(answer)));
    return;
  }
  await judge(new TextEncoder().encode(answer.text), `${packId}.json`);
}

function chooser() {
  const input = h('input', { type: 'file', accept: '.json,.ndjson,application/json,application/x-ndjson', onchange: () => take(input.files[0]) });
  const area = h('div', {
    class: 'drop',
    ondragover: (e) => {
      e.preventDefault();
      area.classList.add('over');
    },
    ondragleave: () => area.classList.remove('over'),
    ondrop: (e) => {
      e.preventDefault();
      area.classList.remove('over');
      take(e.dataTransfer.files[0]);
    },
  }, field('Verify a pack that you have', input, 'Drop a file here, or choose one: the sandbox’s answer, a pack as one JSON object, or a bundle (NDJSON). It stays in this browser.'));
  return area;
}

const maxBytes = 256 * 1024 * 1024;

async function take(file) {
  if (!file) return;
  if (file.size > maxBytes) put('verdict', h('p', null, `${file.name} is larger than 256 MiB: verify it with muniment-verify.`));
  else await judge(new Uint8Array(await file.arrayBuffer()), file.name);
}

export function startPacks() {
  put('chooser', h('h3', null, 'A pack from elsewhere'), chooser());
  byID('chooser').append(startVerdict());
  onChange(draw);
}

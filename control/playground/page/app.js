// The page begins here.

import { startAccess } from './access.js';
import { failure, send } from './api.js';
import { byID, say, warn } from './dom.js';
import { deliverExample, startDelivery } from './delivery.js';
import { startLineage } from './lineage.js';
import { startPacks } from './packs.js';
import { startReceipts } from './receipts.js';
import { startRecord } from './record.js';
import { changed, lose, onChange, refresh, state } from './state.js';

const status = (text) => { byID('tenant-status').textContent = text; };

function draw() {
  const { inspection } = state;
  byID('start').hidden = inspection !== null;
  byID('restart').hidden = inspection === null;
  document.querySelector('.steps li').classList.toggle('done', inspection !== null);
  if (inspection) {
    const { tenantId, counts } = inspection.tenant;
    const many = (n, one, more = `${one}s`) => `${n} ${n === 1 ? one : more}`;
    status(`Your sandbox is ${tenantId}: ${many(counts.bases, 'basis', 'bases')}, ${many(counts.rights, 'right')}, ${many(counts.offers, 'offer')}, ${many(counts.challenges, 'challenge')}, ${many(counts.events, 'event')}, ${many(counts.proofPacks, 'pack')}.`);
  }
}

async function begin() {
  byID('start').disabled = true;
  const answer = await send({ method: 'POST', path: '/api/sandbox/tenant' });
  byID('start').disabled = false;
  if (!answer.ok) {
    status(failure(answer));
    warn(failure(answer));
    return;
  }
  await refresh();
  say('Your sandbox is ready');
}

// deliver is the whole of it in one press: a sandbox, if there is none, and a delivery that passes.
async function deliver() {
  byID('next').disabled = true;
  try {
    if (!state.inspection) await begin();
    if (state.inspection) await deliverExample();
  } finally {
    byID('next').disabled = false;
  }
}

async function restart() {
  byID('restart').disabled = true;
  const answer = await send({ method: 'POST', path: '/api/sandbox/reset' });
  byID('restart').disabled = false;
  if (!answer.ok) {
    status(failure(answer));
    return;
  }
  lose();
  changed();
  status('The sandbox and all that was in it is deleted. You can get another one.');
  byID('start').focus();
}

async function start() {
  startAccess(); // first of all: the address must not keep the token
  onChange(draw);
  startLineage();
  startRecord();
  startDelivery();
  startReceipts();
  startPacks();
  byID('start').addEventListener('click', begin);
  byID('next').addEventListener('click', deliver);
  byID('restart').addEventListener('click', restart);
  const gate = await fetch('/gate.json');
  if (gate.ok) state.gate = await gate.json();
  changed();
  const answer = await refresh({ looks: true }); // a visitor who comes back
  if (answer.error === 'TENANT_EVICTED') status('Your last sandbox was deleted. You can get another one.');
}

start();

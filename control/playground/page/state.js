// What the page knows of the visitor's sandbox, and who wants to hear of it.

import { send } from './api.js';
import { warn } from './dom.js';

export const state = {
  inspection: null, // of GET /api/sandbox/inspect; null without a sandbox
  gate: null, // /gate.json
  selected: null, // the id of the record that is chosen
};

const listeners = [];

// onChange has f called whenever the state has changed.
export const onChange = (f) => { listeners.push(f); };

export function changed() {
  for (const f of listeners) f();
}

// refresh reads the sandbox anew. It returns the answer. looks says that it asks whether there is one.
export async function refresh({ looks = false } = {}) {
  const answer = await send({ path: '/api/sandbox/inspect', looks });
  if (answer.ok) state.inspection = answer.data;
  else if (answer.error === 'NO_TENANT' || answer.error === 'TENANT_EVICTED') lose();
  changed();
  return answer;
}

export function lose() {
  Object.assign(state, { inspection: null, selected: null });
}

// act changes something in the sandbox, and reads it anew.
export async function act(request) {
  const answer = await send({ method: 'POST', ...request });
  if (answer.ok) await refresh();
  else {
    warn(answer.message ?? 'It did not work.');
    if (answer.error === 'NO_TENANT' || answer.error === 'TENANT_EVICTED') {
      lose();
      changed();
    }
  }
  return answer;
}

export const rightsOn = (substrate) => (state.inspection?.rights ?? []).filter((r) => r.substrate === substrate && r.effectiveState === 'ACTIVE');

// short is an id for people: its end, by which they differ.
export const short = (id) => (id ? `${id.slice(0, 4)}…${id.slice(-5)}` : '–');

export const clock = (time) => new Date(time).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

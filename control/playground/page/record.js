// The panel of the record that is chosen in the picture: what it is, and what can be done with it.

import { found } from './actions.js';
import { curl, failure } from './api.js';
import { code, field, h, put, say, select, tag } from './dom.js';
import { moodOf } from './lineage.js';
import { act, onChange, state } from './state.js';

// shown is what the panel was last made of: a form that somebody fills in stays as it is.
let shown = '';

function draw() {
  const one = state.inspection && state.selected ? found(state.selected) : null;
  const now = one ? JSON.stringify(one.record) : state.inspection ? 'none' : 'no sandbox';
  if (now === shown) return;
  shown = now;
  if (!one) {
    put('record', h('h3', null, 'Nothing is chosen'), h('p', { class: 'status' }, state.inspection ? 'Choose a basis, a right, an offer or a challenge.' : 'There is nothing to change yet.'));
    return;
  }
  const form = h('div');
  const buttons = one.actions.map((action) => h('button', {
    type: 'button', class: action.danger ? 'small danger' : 'small', 'aria-pressed': 'false',
    onclick: (e) => {
      for (const b of buttons) b.setAttribute('aria-pressed', String(b === e.currentTarget));
      form.replaceChildren(formOf(action));
    },
  }, action.title));
  const state_ = one.record.effectiveState ?? one.record.state;
  put('record',
    h('h3', null, `${one.kind}: ${one.title} `, tag(state_, moodOf(state_))),
    h('dl', null, h('dt', null, 'Id'), h('dd', { class: 'mono' }, one.record.id), Object.entries(one.facts).filter(([, v]) => v).map(([k, v]) => [h('dt', null, k), h('dd', null, v)])),
    buttons.length > 0 ? h('div', { class: 'buttons', role: 'group', 'aria-label': 'What to do' }, buttons) : h('p', { class: 'status' }, 'Nothing more can be done with it.'),
    form);
}

// formOf is the form of one action, with the curl command of what is filled in.
function formOf(action) {
  const controls = new Map(action.fields.map((f) => [f.name, f.options ? select(f.options, f.value) : h('input', { value: f.value, autocomplete: 'off' })]));
  const request = () => ({ path: action.path, body: action.body(Object.fromEntries(Array.from(controls, ([name, c]) => [name, c.value.trim()]))) });
  const command = code(curl({ method: 'POST', ...request() }), 'Copy the curl command');
  const result = h('p', { role: 'status' });
  const submit = h('button', { class: action.danger ? 'danger' : 'primary' }, action.title);
  return h('form', {
    oninput: () => { command.firstChild.textContent = curl({ method: 'POST', ...request() }); },
    onsubmit: async (e) => {
      e.preventDefault();
      submit.disabled = true;
      const answer = await act(request());
      submit.disabled = false;
      result.textContent = answer.ok ? '' : failure(answer);
      if (answer.ok) say(`${action.title}: done`);
    },
  },
  h('h4', null, action.title), action.note && h('p', { class: 'status' }, action.note),
  action.fields.map((f) => field(f.label, controls.get(f.name), f.hint)), command, h('p', { class: 'buttons' }, submit), result);
}

export const startRecord = () => onChange(draw);

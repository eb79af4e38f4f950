// The form of a delivery, made from the gate's own catalogue.

import { curl, failure, send } from './api.js';
import { byID, code, field, h, put, say, select } from './dom.js';
import { observed } from './receipts.js';
import { refused, signed } from './result.js';
import { act, changed, lose, onChange, rightsOn, short, state } from './state.js';

let substrate = 'DOOH';
let example = null; // of the gate, for the substrate
let controls = new Map(); // of telemetry, by field
let plain = {}; // controls of the delivery's own fields
let drawn = '';
let command;

const substratesOf = () => state.gate.substrates.map((s) => s.substrate);

// readHere are the codes of rules that decide on the substrate.
function readHere() {
  const of = state.gate.substrates.find((s) => s.substrate === substrate);
  return new Set([...of.refusals, ...of.suppressions]);
}

function draw() {
  if (!state.gate) return;
  const rights = rightsOn(substrate);
  const now = JSON.stringify([substrate, state.inspection !== null, rights.map((r) => r.id)]);
  if (now === drawn) return;
  const kept = drawn !== '' && JSON.parse(drawn)[0] === substrate ? body() : null;
  drawn = now;
  example = state.gate.examples.find((e) => e.right.substrate === substrate);
  const choice = select(substratesOf().map((name) => [name, rightsOn(name).length > 0 ? `${name} (you have a right)` : name]), substrate, { onchange: (e) => {
    substrate = e.target.value;
    draw();
  } });
  put('delivery-form', form(choice, rights));
  fill(kept ?? example.delivery);
}

function form(choice, rights) {
  const codes = readHere();
  const fields = state.gate.fields.map((f) => ({ ...f, here: f.readBy?.some((rule) => codes.has(rule)) }));
  controls = new Map(fields.map((f) => [f.name, control(f)]));
  const shown = (list) => h('div', { class: 'fields many' }, list.map((f) => field(label(f.name), controls.get(f.name), f.meaning)));
  plain = {
    rightId: select(rights.map((r) => [r.id, `${short(r.id)} ${r.scope?.description ?? (r.parentRightId ? 'derived' : '')}`]), rights[0]?.id),
    spatialAnchorId: h('input', { required: true, maxlength: '512' }), spatialPlacementId: h('input', { maxlength: '512' }),
    dwellMs: h('input', { type: 'number', min: '0', step: 'any', required: true }),
  };
  command = code('', 'Copy the curl command');
  const submit = h('button', { class: 'primary', form: 'delivery', disabled: rights.length === 0 }, 'Deliver');
  put('delivery-send', command, h('p', { class: 'buttons' }, submit));
  const refusals = select([['', 'Choose a rule to break…'], ...example.refused.map((r) => [r.code, r.code])], '', { onchange: (e) => {
    const one = example.refused.find((r) => r.code === e.target.value);
    if (one) fill(one.delivery);
  } });
  return h('form', { id: 'delivery', onsubmit: (e) => deliver(e, submit), oninput: preview },
    h('div', { class: 'fields' }, field('Substrate', choice, 'Where it was delivered. Each has rules of its own.'),
      rights.length > 0 ? field('Right', plain.rightId, 'The ACTIVE right that it rests on.') : missing()),
    h('div', { class: 'fields' },
      h('div', { class: 'field' }, h('span', { class: 'label' }, 'An example that passes'), h('button', { type: 'button', onclick: () => fill(example.delivery) }, 'Fill in')),
      field('An example that fails', refusals, 'One for each rule that refuses on this substrate.')),
    h('fieldset', null, h('legend', null, 'What was shown'), h('div', { class: 'fields' },
      field(label('dwellMs', 'Shown for'), plain.dwellMs, 'In milliseconds.'), field(label('spatialAnchorId', 'Screen or place'), plain.spatialAnchorId, 'Where it was shown, by a name of yours.'),
      field(label('spatialPlacementId', 'Place on it'), plain.spatialPlacementId, 'Optional.'))),
    h('fieldset', null, h('legend', null, 'What the device observed'), shown(fields.filter((f) => f.here)),
      h('details', null, h('summary', null, 'Fields that no rule of this substrate reads'), shown(fields.filter((f) => !f.here)))));
}

// missing is in place of a right where the sandbox has none on the substrate.
function missing() {
  const basis = state.inspection?.bases.find((b) => b.state === 'ACTIVE');
  const request = () => ({ path: '/api/sandbox/rights/issue', body: { basisId: basis.id, substrate, scope: example.right.scope ?? { campaigns: ['playground'] }, effectiveFrom: new Date().toISOString() } });
  return h('div', { class: 'field' }, h('span', { class: 'label' }, `No ACTIVE right on ${substrate}`),
    basis
      ? h('button', { type: 'button', onclick: async (e) => {
        e.currentTarget.disabled = true;
        const answer = await act(request());
        if (!answer.ok) put('delivery-result', h('p', null, failure(answer)));
      } }, `Issue a right on ${substrate}`)
      : h('span', { class: 'hint' }, 'Get a sandbox first.'));
}

// units are how names end that have one.
const units = { Mph: 'mph', Ms: 'ms', Pct: '%', Percent: '%', M: 'm', Ft: 'ft', Db: 'dB', Deg: '°', Id: 'id' };

// label is what people call a field, with the name that it has in a request.
function label(name, called) {
  const words = name.split(/(?=[A-Z])/);
  const unit = words.length > 1 ? units[words.at(-1)] : undefined;
  const text = (unit ? words.slice(0, -1) : words).join(' ').toLowerCase();
  return [called ?? text[0].toUpperCase() + text.slice(1) + (unit ? (unit === 'id' ? ' id' : `, in ${unit}`) : ''), ' ', h('code', null, name)];
}

function control(f) {
  const none = ['', 'not sent'];
  if (f.type === 'boolean') return select([none, ['true'], ['false']], '');
  if (f.values) return select([none, ...f.values.map((v) => [v])], '');
  if (f.type === 'number') return h('input', { type: 'number', min: f.min, step: 'any', placeholder: 'not sent' });
  return h('input', { maxlength: f.maxBytes, placeholder: 'not sent' });
}

// fill puts a delivery into the form.
function fill(delivery) {
  for (const name of ['spatialAnchorId', 'spatialPlacementId', 'dwellMs']) plain[name].value = delivery[name] ?? '';
  if (delivery.rightId && rightsOn(substrate).some((r) => r.id === delivery.rightId)) plain.rightId.value = delivery.rightId;
  for (const [name, c] of controls) c.value = delivery.telemetry?.[name] === undefined ? '' : String(delivery.telemetry[name]);
  preview();
}

function body() {
  const telemetry = {};
  for (const f of state.gate.fields) {
    const value = controls.get(f.name)?.value ?? '';
    if (value !== '') telemetry[f.name] = f.type === 'boolean' ? value === 'true' : f.type === 'number' ? Number(value) : value;
  }
  return {
    rightId: plain.rightId.value, spatialAnchorId: plain.spatialAnchorId.value, dwellMs: Number(plain.dwellMs.value),
    ...(plain.spatialPlacementId.value && { spatialPlacementId: plain.spatialPlacementId.value }), telemetry,
  };
}

const request = () => ({ method: 'POST', path: '/api/playground/delivery', body: body() });

function preview() {
  command.firstChild.textContent = curl(request());
}

async function deliver(e, submit) {
  e.preventDefault();
  submit.disabled = true;
  const sent = request();
  const answer = await send(sent);
  submit.disabled = false;
  for (const [, c] of [...controls, ...Object.entries(plain)]) c.closest('.field')?.classList.remove('wrong');
  if (answer.ok) {
    put('delivery-result', signed(answer, substrate));
  } else {
    for (const v of answer.violations ?? []) {
      for (const name of v.fields) {
        const c = controls.get(name.replace('telemetry.', ''));
        if (c && (c.value !== '' || name === v.field)) c.closest('.field').classList.add('wrong');
      }
    }
    put('delivery-result', refused(answer, state.gate));
    if (answer.error === 'NO_TENANT' || answer.error === 'TENANT_EVICTED') {
      lose();
      changed();
    }
  }
  observed(answer, sent.body);
  say(answer.ok ? 'The delivery was signed' : `The delivery was refused: ${failure(answer)}`);
}

// deliverExample delivers what passes on a substrate that the sandbox has a right on, and shows the result.
export async function deliverExample() {
  if (rightsOn(substrate).length === 0) substrate = substratesOf().find((name) => rightsOn(name).length > 0) ?? substrate;
  draw();
  fill(example.delivery);
  byID('delivery').requestSubmit();
  byID('delivery-result').scrollIntoView({ block: 'center' });
}

export function startDelivery() {
  put('delivery-form', h('p', { class: 'status' }, 'The gate’s catalogue is on its way.'));
  put('delivery-result', h('h3', null, 'What the gate says'), h('p', { class: 'status' }, 'Fill in an example that passes or fails, and deliver it.'));
  onChange(draw);
}

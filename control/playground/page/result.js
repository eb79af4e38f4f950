// What came of a delivery, for people.

import { failure } from './api.js';
import { code, h, tag } from './dom.js';

const mark = (mood, sign) => h('span', { class: `mark ${mood}`, 'aria-hidden': 'true' }, sign);

// said is a headline with its sign.
const said = (mood, sign, title, text) => h('div', { class: 'said' }, mark(mood, sign), h('div', null, h('b', null, title), text));

// signed is the answer with a receipt.
export function signed(answer, substrate) {
  const { receipt, metering, signature } = answer.data;
  return [
    said('good', '✓', 'Signed, and durable', `The gate of ${substrate} let it pass, in ${Math.round(answer.ms)} ms there and back.`),
    h('dl', null,
      h('dt', null, 'Receipt'), h('dd', { class: 'mono' }, receipt.receiptId),
      h('dt', null, 'Billed'), h('dd', null, metering.metered ? [tag('METERED', 'good'), ` ${metering.quantityMs} ms, as ${metering.basis}`] : [tag(metering.reason, 'warn'), ' receipted, and not billed']),
      h('dt', null, 'Bound by'), h('dd', { class: 'mono' }, receipt.witness),
      h('dt', null, 'Signed by'), h('dd', { class: 'mono' }, signature.keyId)),
    h('details', null, h('summary', null, 'The whole answer'), code(JSON.stringify(answer.data, null, 2), 'Copy the answer')),
  ];
}

const shown = (value) => (value === null ? 'nothing' : typeof value === 'string' ? value : JSON.stringify(value));

// refused is the answer without one: each rule that said no, and what it means.
export function refused(answer, gate) {
  if (!answer.violations) {
    return [said('bad', '✕', titles[answer.status] ?? 'Refused', failure(answer)), h('p', { class: 'status' }, 'Nothing was signed.')];
  }
  const n = answer.violations.length;
  return [
    said('bad', '✕', `Refused by ${n} ${n === 1 ? 'rule' : 'rules'}`, 'Nothing was signed, and nothing is in the log.'),
    h('ul', { class: 'violations' }, answer.violations.map((v) => h('li', null,
      h('b', null, v.message),
      h('p', null, h('code', null, v.field), ` was ${shown(v.observed)}; required is ${v.required}.`),
      meaning(gate, v) && h('p', null, `The rule: refuse ${meaning(gate, v)}.`),
      h('small', null, h('a', { href: `/docs/gate#${v.code}` }, v.code), v.reference ? ` · ${v.reference}` : '')))),
  ];
}

// meaning is what the catalogue says of when the rule refuses.
function meaning(gate, violation) {
  const rule = gate.refusals.find((r) => r.code === violation.code);
  const condition = rule?.conditions.find((c) => c.field === violation.field) ?? rule?.conditions[0];
  if (!condition) return '';
  const when = condition.when.length > 0 && `when ${condition.when.join(' and ')}`;
  const unless = condition.unless.length > 0 && `unless ${condition.unless.join(' or ')}`;
  return [when, unless].filter(Boolean).join(', ');
}

const titles = { 0: 'No answer', 404: 'There is no such right', 409: 'The right is not in force', 410: 'Your sandbox is gone', 422: 'The delivery is not complete', 429: 'Too many requests', 503: 'The service can’t decide now' };

// What the program found, for people: the sentence first, then each file with its checks.

import { code, h, tag } from './dom.js';

const verdicts = {
  sound: { mood: 'good', sign: '✓', title: 'Sound', small: 'sound' },
  unsound: { mood: 'bad', sign: '✕', title: 'Not sound', small: 'not sound' },
  unjudged: { mood: 'open', sign: '?', title: 'Can’t be judged', small: 'can’t be judged' },
};

const anchors = {
  root: 'The keys were checked up to the root key that you gave. Nobody else had to be trusted.',
  service: 'The keys are those that this service publishes: that they are genuine is its own word. Give the root key to check that, too.',
  sandbox: 'Signed by keys of the sandbox, which anyone can make evidence with. It proves nothing of a real delivery.',
};

const kinds = {
  receipt: 'receipt', pack: 'proof pack', directory: 'key directory', proof: 'inclusion proof', checkpoint: 'checkpoint', consistency: 'consistency proof', export: 'export of the log',
  bundle: 'bundle of personal data', statement: 'statement', erasure: 'certificate of an erasure', unknown: 'file of another kind',
};

function stateOf(v) {
  if (v.next !== undefined && v.next !== '') return 'open';
  if (!v.ok) return 'failed';
  return v.code.endsWith('.ok') ? 'passed' : 'remark';
}

const signs = { passed: ['✓', 'passed'], failed: ['✕', 'failed'], open: ['?', 'open'], remark: ['i', 'remark'] };

const mostShown = 200;

function check(v) {
  const state = stateOf(v);
  return h('li', { class: state }, h('span', { class: 'sign', 'aria-hidden': 'true' }, signs[state][0]),
    h('span', null, h('span', { class: 'hidden' }, `${signs[state][1]}: `), state === 'failed' ? h('b', null, v.message) : v.message, ' ', h('code', null, v.code)),
    v.next && h('ul', null, h('li', null, `What to do: ${v.next}`)));
}

// order puts first what needs attention.
const order = ['failed', 'open', 'remark', 'passed'];

function fileOf(f, sums) {
  const { mood, small } = verdicts[f.verdict];
  const checks = f.verdicts.toSorted((a, b) => order.indexOf(stateOf(a)) - order.indexOf(stateOf(b)));
  return h('section', { class: 'report-file', 'aria-label': f.file },
    h('h3', null, f.file, tag(small, mood === 'open' ? 'warn' : mood), tag(kinds[f.kind] ?? f.kind)),
    h('p', null, f.summary),
    h('ul', { class: 'checks' }, checks.slice(0, mostShown).map(check), checks.length > mostShown && h('li', null, h('span', null), h('span', null, `and ${checks.length - mostShown} more`))),
    sums.has(f.file) && h('p', { class: 'hash' }, `SHA-256 ${sums.get(f.file)}`));
}

// reportOf shows a report; sums are the hashes of the files, by name. from is the file that the root key came from, if
// the reader has not typed it.
export function reportOf(report, sums, root, from) {
  const { mood, sign, title } = verdicts[report.verdict];
  return [
    h('div', { class: `outcome ${mood}` }, h('div', { class: 'verdict' },
      h('span', { class: `mark ${mood === 'open' ? 'warn' : mood}`, 'aria-hidden': 'true' }, sign),
      h('div', null, h('h2', null, title), h('p', null, report.summary || report.message), report.summary === '' && h('p', null, `What to do: ${report.next}`), h('p', null, from === '' ? anchors[report.anchor] : `The keys were checked up to the root key in ${from}. Compare it with the one that the operator has given you: whoever made these files may have made that one, too.`)))),
    h('p', { class: 'buttons' }, h('button', { type: 'button', onclick: () => print() }, 'Print as a certificate')),
    report.files.map((f) => fileOf(f, sums)),
    h('p', { class: 'status' }, `Judged on ${new Date().toISOString().slice(0, 16).replace('T', ' at ')} UTC by muniment-verify in a browser at ${location.origin}.`, root !== '' && ` Root key: ${root}`),
    h('details', null, h('summary', null, 'For programs'), code(JSON.stringify(report, null, 2), 'Copy the report')),
  ];
}

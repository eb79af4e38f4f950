// What the program found, for people: the sentence first, then each file with its checks.

import { code, h, tag } from './dom.js';
import { kinds, meanings, nextOf, opened, restsOn, sentenceOf, verdicts } from './words.js';

export { restsOn, verdicts };

function stateOf(v) {
  if (v.next !== undefined && v.next !== '') return 'open';
  if (!v.ok) return 'failed';
  return v.code.endsWith('.ok') ? 'passed' : 'remark';
}

const signs = { passed: ['✓', 'passed'], failed: ['✕', 'failed'], open: ['?', 'open'], remark: ['i', 'remark'] };

const mostShown = 200;

function check(v) {
  const state = stateOf(v);
  const found = v.index === null ? v.message : `entry ${v.index} (line ${v.index + 2} of a bundle): ${v.message}`;
  const message = found.slice(0, 1).toUpperCase() + found.slice(1);
  const meaning = meanings[v.code];
  return h('li', { class: state }, h('span', { class: 'sign', 'aria-hidden': 'true' }, signs[state][0]),
    h('span', null, h('span', { class: 'hidden' }, `${signs[state][1]}: `), h(state === 'failed' ? 'b' : 'span', null, meaning ?? message), ' ', h('code', null, v.code), meaning && h('small', null, message)),
    v.next ? h('ul', null, h('li', null, `What to do: ${v.next}`)) : state === 'remark' && opened[v.code] && h('ul', null, h('li', null, `To settle it: ${opened[v.code]}`)));
}

// order puts first what needs attention.
const order = ['failed', 'open', 'remark', 'passed'];

// checksOf lists the checks of a file.
export function checksOf(f) {
  const checks = f.verdicts.toSorted((a, b) => order.indexOf(stateOf(a)) - order.indexOf(stateOf(b)));
  return h('ul', { class: 'checks', 'aria-label': 'Checks' }, checks.slice(0, mostShown).map(check), checks.length > mostShown && h('li', null, h('span', null), h('span', null, `and ${checks.length - mostShown} more`)));
}

function fileOf(f, sums) {
  const { mood, small } = verdicts[f.verdict];
  return h('section', { class: 'report-file', 'aria-label': f.file },
    h('h3', null, f.file, tag(small, mood === 'open' ? 'warn' : mood), tag(kinds[f.kind] ?? f.kind)),
    f.verdict === 'sound' && h('p', null, f.summary), // of others the first check says it
    checksOf(f),
    sums.has(f.file) && h('p', { class: 'hash' }, `SHA-256 ${sums.get(f.file)}`));
}

// unfolded is up to how many files that are sound are shown one by one.
const unfolded = 20;

// filesOf shows the files, those that need attention first. Many that are sound are folded away; on paper they are there.
function filesOf(files, sums) {
  const sound = files.filter((f) => f.verdict === 'sound');
  const others = files.filter((f) => f.verdict !== 'sound');
  const shown = [...others, ...sound].map((f) => fileOf(f, sums));
  if (sound.length <= unfolded) return shown;
  return [shown.slice(0, others.length), h('details', { class: 'many' }, h('summary', null, `${sound.length.toLocaleString('en')} files that are sound`), shown.slice(others.length))];
}

// reportOf shows a report; sums are the hashes of the files, by name. root is the key that the reader gave, or empty.
export function reportOf(report, sums, root) {
  const { mood, sign, title } = verdicts[report.verdict];
  return [
    h('div', { class: `outcome ${mood}` }, h('div', { class: 'verdict' },
      h('span', { class: `mark ${mood === 'open' ? 'warn' : mood}`, 'aria-hidden': 'true' }, sign),
      h('div', null, h('h2', null, title), h('p', null, sentenceOf(report)), restsOn(report) !== '' && h('p', null, restsOn(report)), h('p', { class: 'next' }, h('b', null, 'What to do next: '), nextOf(report))))),
    h('p', { class: 'buttons' }, h('button', { type: 'button', onclick: () => print() }, report.verdict === 'sound' ? 'Print as a certificate' : 'Print this report')),
    filesOf(report.files, sums),
    h('p', { class: 'status' }, `Judged on ${new Date().toISOString().slice(0, 16).replace('T', ' at ')} UTC by muniment-verify in a browser at ${location.origin}.`, root !== '' && ` Root key: ${root}`),
    h('details', { class: 'programs' }, h('summary', null, 'For programs'), code(JSON.stringify(report, null, 2), 'Copy the report')),
  ];
}

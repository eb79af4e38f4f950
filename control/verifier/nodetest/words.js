// What the page says of each verdict on each kind of file, for tests: the standard input is [KIND, …], the output
// [{"kind":…,"verdict":…,"anchor":…,"called":…,"title":…,"rests":…,"sentence":…,"next":…}, …] as JSON.

import { readFileSync } from 'node:fs';

import { kinds, nextOf, ofSound, restsOn, sentenceOf, verdicts } from '../page/words.js';

const said = [];
for (const kind of JSON.parse(readFileSync(0, 'utf8'))) {
  for (const verdict of Object.keys(verdicts)) {
    for (const anchor of Object.keys(ofSound)) {
      const next = verdict === 'unjudged' ? 'do this' : undefined;
      const summary = verdict === 'unjudged' ? 'It can’t be judged yet: a file (some.code). Next: do this.' : 'It was found.';
      const report = { verdict, anchor, summary, files: [{ file: 'a file', kind, verdict, verdicts: [{ code: 'some.code', ok: verdict === 'sound', next }] }] };
      said.push({ kind, verdict, anchor, called: kinds[kind], title: verdicts[verdict].title, rests: restsOn(report), sentence: sentenceOf(report), next: nextOf(report) });
    }
  }
}
for (const report of [{ verdict: 'unjudged', anchor: 'tried', summary: '', message: 'no root key', next: 'give one', files: [] }]) {
  said.push({ kind: 'none', verdict: report.verdict, anchor: report.anchor, called: 'none', title: verdicts[report.verdict].title, rests: restsOn(report), sentence: sentenceOf(report), next: nextOf(report) });
}
console.log(JSON.stringify(said));

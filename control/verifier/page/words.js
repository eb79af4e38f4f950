// What people read beside the program's own sentences: what a verdict is called, what it rests on, and what to do next. Nothing
// here makes elements.

export const verdicts = {
  sound: { mood: 'good', sign: '✓', title: 'Sound', small: 'sound' },
  unsound: { mood: 'bad', sign: '✕', title: 'Not sound', small: 'not sound' },
  unjudged: { mood: 'open', sign: '?', title: 'Can’t be judged', small: 'can’t be judged' },
};

export const anchors = {
  root: 'The keys, also the newest that this service publishes, were checked up to the root key that you gave. Nobody else had to be trusted.',
  alone: 'The keys were checked up to the root key that you gave. This service could not say whether one of them was revoked since: it publishes none under that root, or could not be reached.',
  tried: 'It was judged by the root key that you gave.',
  service: 'The keys are those that this service publishes: that they are genuine is its own word. Give the root key to check that, too.',
  sandbox: 'Signed by keys of the sandbox, which anyone can make evidence with. It proves nothing of a real delivery.',
};

export const kinds = {
  receipt: 'receipt', pack: 'proof pack', directory: 'key directory', proof: 'inclusion proof', checkpoint: 'checkpoint', consistency: 'consistency proof', export: 'export of the log',
  dsar_bundle: 'bundle of personal data', statement: 'statement', erasure: 'certificate of an erasure', release: 'checksums of a release', event: 'event', unknown: 'file of another kind',
};

// opened says what settles what a remark leaves open: nothing is wrong, and a further file would show it.
export const opened = {
  'receipt.uncovered': 'give the proof of the play, or the pack that holds it.',
  'receipt.unproven': 'give the pack that holds the play, or its proof.',
  'duplicates.unproven': 'give the packs of the 24 hours before these, too; of all packs from the first on nothing is left open.',
  'settlement.unproven': 'give all packs from the first on.',
  'issue.unproven': 'give the pack that was sealed next after the statement was issued.',
  'erasure.unproven': 'give the pack, or the export, that was sealed next after the erasure.',
  'chain.gap': 'give the packs in between.',
  'right.unproven': 'give the packs that were sealed later.',
  'right.late': 'ask whoever runs the service whether the clock of a machine was wrong then.',
};

// unsound is what a reader of evidence that is not sound does: it may have been damaged on its way.
const unsound = 'keep this file, and get it once more from where it was made, as it is: no program may open and save it on its way. If that one is not sound either, ask whoever runs the service, and show both.';

// ofSound is what to do about what is sound, by what the verdict rests on.
const kept = 'print this page as a certificate, and keep it with the files: whoever has them can repeat the check.';
const ofSound = {
  root: kept,
  alone: kept,
  tried: kept,
  service: 'get the root key from whoever runs the service, another way than from this site, and give it above: then the keys are not this service’s own word. Print this page as a certificate, and keep it with the files.',
  sandbox: 'if this should prove a real delivery, ask for evidence that no key of the sandbox has signed.',
};

// worst is the file that decides.
const worst = (report) => report.files.find((f) => f.verdict === report.verdict);

// stepOf is what to do about what can't be judged.
const stepOf = (report) => report.next || (worst(report)?.verdicts.find((v) => v.next)?.next ?? 'give the files as the service returned them, unchanged');

const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

// sentenceOf is what was found, for a person, without what to do about it.
export function sentenceOf(report) {
  const said = report.summary || report.message || 'Nothing was found.';
  const next = report.verdict === 'unjudged' ? ` Next: ${stepOf(report)}.` : '';
  return sentence(next !== '' && said.endsWith(next) ? said.slice(0, -next.length) : said);
}

// nextOf is what to do about a report.
export function nextOf(report) {
  if (report.verdict === 'unsound') return unsound;
  if (report.verdict === 'unjudged') return sentence(stepOf(report));
  if (report.files.every((f) => f.kind === 'directory')) return 'give what these keys have signed, too: receipts, packs, statements.';
  return ofSound[report.anchor];
}

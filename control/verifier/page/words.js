// What people read beside the program's own sentences: what a verdict is called, what it rests on, and what to do next. Nothing
// here makes elements.

export const verdicts = {
  sound: { mood: 'good', sign: '✓', title: 'Sound', small: 'sound' },
  unsound: { mood: 'bad', sign: '✕', title: 'Not sound', small: 'not sound' },
  unjudged: { mood: 'open', sign: '?', title: 'Can’t be judged', small: 'can’t be judged' },
};

const anchors = {
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

// meanings say for people what codes mean that they may meet. What was found is beside it.
export const meanings = {
  'directory.ok': 'The list of keys is signed under the root key',
  'signature.ok': 'Each signature is genuine, by a key that was valid then (Ed25519)',
  'checkpoint.ok': 'The checkpoint is signed, for this log, size and root (C2SP)',
  'consistency.ok': 'The log only grew: what was there before is unchanged (RFC 6962)',
  'inclusion.ok': 'All of it is in the log, each entry in its place (RFC 6962)',
  'witness.ok': 'Each receipt is bound to the event around it',
  'metering.ok': 'What is billed is what the entries add up to, and repetitions count nothing',
  'settlement.ok': 'Amounts and shares are what the rules in the log make of the plays (receipts)',
  'statement.ok': 'The statement is what packs and rules make of its period',
  'files.ok': 'Each file in it is as it was signed',
  'signature.invalid': 'A signature is not that of this text: something was changed',
  'root.mismatch': 'The entries are not those that were signed',
  'inclusion.mismatch': 'The event is not in the log at the place that the proof names',
  'count.mismatch': 'Entries are missing, or were added',
  'witness.mismatch': 'An event is not the one that its receipt was signed for',
  'entry.altered': 'An event was changed: its parts contradict each other',
  'metering.mismatch': 'What is billed is not what the entries add up to',
  'format.invalid': 'It begins as evidence does, and was cut or changed',
  'input.unreadable': 'The file can’t be read',
  'format.unknown': 'This is no file that can be verified',
  'format.release': 'This is the list of a release’s checksums',
  'key.unknown': 'Signed by a key that is not in the list of keys at hand',
  'key.revoked': 'Signed by a key that was revoked, and nothing here shows that it had signed before',
  'directory.foreign': 'The keys in it are of another service than the root key',
  'directory.expired': 'The list of keys at hand does not reach so far',
  'directory.revoked': 'The list of keys is signed by a key that was revoked',
  'event.missing': 'The event that this proves was not given',
  'inclusion.unproven': 'Nothing here shows that it is in the log',
  'consistency.unproven': 'Nothing here shows that the log has grown from the checkpoint that was kept',
  'statement.unproven': 'Something that the statement depends on was not given',
};

// opened says what settles what a remark leaves open, where its message doesn't: nothing is wrong, and a further file would show it.
export const opened = {
  'receipt.uncovered': 'give the proof of the play, or the pack that holds it.',
  'receipt.unproven': 'give the pack that holds the play, or its proof.',
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
export const ofSound = {
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

// sentenceOf is what was found, for a person, without what to do about it. What is not sound begins with what that means.
export function sentenceOf(report) {
  const said = report.summary || report.message || 'Nothing was found.';
  if (report.verdict === 'sound') return sentence(said);
  const next = report.verdict === 'unjudged' ? ` Next: ${stepOf(report)}.` : '';
  const found = sentence(next !== '' && said.endsWith(next) ? said.slice(0, -next.length) : said);
  const decides = worst(report)?.verdicts.find((v) => found.includes(`(${v.code})`));
  return decides && meanings[decides.code] ? `${meanings[decides.code]}. ${found}` : found;
}

// restsOn is by which keys a report was made; empty where none of the files is one that keys sign.
export function restsOn(report) {
  if (report.files.every((f) => f.kind === 'unknown' || f.kind === 'release')) return '';
  return report.verdict === 'unjudged' && report.anchor === 'service' ? 'It was judged by the keys that this service publishes.' : anchors[report.anchor];
}

// nextOf is what to do about a report.
export function nextOf(report) {
  if (report.verdict === 'unsound') return unsound;
  if (report.verdict === 'unjudged') return sentence(stepOf(report));
  if (report.files.every((f) => f.kind === 'directory')) return 'give what these keys have signed, too: receipts, packs, statements.';
  return ofSound[report.anchor];
}

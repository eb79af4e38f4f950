// The proof of one play, judged in this browser by the program of the page /verify.

import { h } from './dom.js';

// verifier loads the program when somebody verifies for the first time, as it is large.
async function verifier() {
  try {
    return { ...await import('/verify/program.js'), ...await import('/verify/report.js') };
  } catch {
    throw new Error('the service has no verifier for browsers, or it could not be loaded');
  }
}

const means = {
  sound: 'This play was recorded as it is shown here, and was not changed since it was sealed.',
  unsound: 'This is not what was recorded. Keep the file, and tell whoever runs the service.',
  unjudged: 'Something is missing: judge the downloaded file by muniment verify with the root key.',
};

// verifyHere fetches the proof that a place names, judges it, and says so there.
export async function verifyHere(place) {
  const target = place.querySelector('.outcome-place');
  target.replaceChildren(h('p', { class: 'status' }, 'Verifying…'), h('progress', { 'aria-label': 'Verifying' }));
  try {
    const answer = await fetch(place.dataset.verify);
    if (!answer.ok) throw new Error(`the proof was answered with status ${answer.status}`);
    const { judge, verdicts, checksOf } = await verifier();
    const report = await judge([['proof.json', new Uint8Array(await answer.arrayBuffer())]], '');
    const { mood, title } = verdicts[report.verdict];
    target.replaceChildren(h('div', { class: `outcome ${mood}` }, h('h3', null, title), h('p', null, means[report.verdict])), ...report.files.map(checksOf));
  } catch (err) {
    target.replaceChildren(h('div', { class: 'outcome open' }, h('h3', null, 'Not verified'), h('p', null, `The proof could not be judged here: ${err.message}. Download it, and use muniment verify.`)));
  }
}

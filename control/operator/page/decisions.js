// The panels in which an operator decides something. Each decision is confirmed in a dialog.

import { send } from './api.js';
import { byID, field, h, say, table, tag } from './dom.js';
import { day, number, plural } from './format.js';
import { choices, panel } from './panel.js';

// opened is which dialog is open: all are the same element.
let opened = 0;

// confirm opens the dialog. act does what is confirmed, and returns the answer; done is called
// once it is ok. What went wrong is shown in the dialog, which stays open. Until there is an answer the
// dialog can't be cancelled. Esc closes it even so when pressed twice: then the answer is ignored, as
// another dialog may be open by then.
function confirm({ title, text, yes, danger, fields = [], act, done }) {
  const dialog = byID('confirm');
  const button = byID('confirm-yes');
  const cancel = byID('confirm-no');
  const self = ++opened;
  const wait = (on) => { button.disabled = cancel.disabled = on; };
  byID('confirm-title').textContent = title;
  byID('confirm-text').textContent = text;
  byID('confirm-fields').replaceChildren(...fields);
  byID('confirm-fault').textContent = '';
  button.textContent = yes;
  button.className = danger ? 'danger' : 'primary';
  wait(false);
  dialog.querySelector('form').onsubmit = async (event) => {
    event.preventDefault();
    wait(true);
    const answer = await act();
    if (self !== opened || !dialog.open) return;
    wait(false);
    if (answer.ok) {
      dialog.close();
      done(answer.data);
    } else {
      byID('confirm-fault').textContent = answer.message ?? `control answers ${answer.status}`;
    }
  };
  dialog.oncancel = (event) => { if (cancel.disabled) event.preventDefault(); };
  cancel.onclick = () => dialog.close();
  dialog.showModal();
}

export function quarantine() {
  const p = panel({
    id: 'quarantine', name: 'Quarantine', path: '/console/api/quarantine', every: 15_000,
    judge: ({ total }) => (total > 0 ? { value: number(total), mood: 'bad', word: 'hold sealing' } : { value: '0', mood: 'good', word: 'nothing held' }),
    draw: ({ records, total }) => (total === 0 ? [h('p', { class: 'empty' }, 'No record holds sealing.')] : [
      table(total > records.length ? `The first ${number(records.length)} of ${plural(total, 'record')}; muniment quarantine list has more` : plural(total, 'record'),
        [{ name: 'Position' }, { name: 'Tenant' }, { name: 'Reason' }, { name: 'Release' }],
        records.map((r) => [h('span', { class: 'mono' }, r.position), h('span', { class: 'mono' }, r.tenantId || 'unreadable: holds its partition'), h('div', { class: 'reason' }, r.reason),
          h('button', { type: 'button', class: 'small', 'data-key': `release-${r.position}`, 'aria-label': `Release the record at ${r.position}`, onclick: () => release(r) }, 'Release…')])),
    ]),
  });
  const release = (record) => {
    const reason = h('input', { required: true, maxlength: '512', autocomplete: 'off' });
    confirm({
      title: `Release the record at ${record.position}?`, danger: true, yes: 'Release for good',
      text: 'The record stays in the log and never becomes part of a pack. Sealing goes on without it. This can’t be undone; an event records it.',
      fields: [field('Reason', reason, 'Kept in the audit log permanently: no personal data.')],
      act: () => send('POST', '/console/api/quarantine/release', { positions: [record.position], reason: reason.value.trim() }),
      done: () => {
        say(`The record at ${record.position} is released`);
        p.poll();
      },
    });
  };
  return p;
}

const moods = { UNCONFIRMED: '', RECEIVED: 'info', APPROVED: 'good', ACTIVATED: 'good', REFUSED: '', EXPIRED: '' };

const mailOf = ({ state, code, attempts }) => (state === 'NONE' ? '–' : state === 'FAILED' ? tag(`failed: ${code}`, 'bad') : code ? tag(`${state.toLowerCase()}, ${plural(attempts, 'attempt')}: ${code}`, 'warn') : state.toLowerCase());

const applicant = ({ email, organisation, use }) => h('div', null, h('span', { class: 'email' }, email), h('div', { class: 'reason' }, `${organisation}: ${use}`));

export function applications() {
  const path = (state) => `/console/api/applications${state && `?state=${state}`}`;
  const p = panel({
    id: 'applications', name: 'Applications', path: path('RECEIVED'), every: 15_000,
    judge: ({ waiting, failedMails }) => ({
      value: number(waiting), mood: failedMails > 0 ? 'warn' : waiting > 0 ? 'info' : 'good',
      word: failedMails > 0 ? `${plural(failedMails, 'mail')} failed` : waiting > 0 ? 'waiting' : 'none wait',
    }),
    draw: ({ applications: list, more }) => (list.length === 0 ? [h('p', { class: 'empty' }, p.path === path('UNCONFIRMED') ? 'No application is unconfirmed.' : 'No application waits.')] : [
      table(`${more ? 'The newest ' : ''}${plural(list.length, 'application')}`, [{ name: 'Applicant' }, { name: 'State' }, { name: 'Made' }, { name: 'Mail' }, { name: 'Decide' }],
        list.map((a) => [applicant(a), tag(a.state, moods[a.state]), day(a.createdAt), mailOf(a.mail), h('span', null, decisions(a))])),
    ]),
  });
  const decisions = (a) => [
    (a.state === 'RECEIVED' || a.state === 'APPROVED') && h('button', { type: 'button', class: 'small', 'data-key': `approve-${a.id}`, 'aria-label': `${a.state === 'APPROVED' ? 'Send another mail to' : 'Approve'} ${a.email}`, onclick: () => decide(a, 'approve') }, a.state === 'APPROVED' ? 'Mail again…' : 'Approve…'),
    (a.state === 'UNCONFIRMED' || a.state === 'RECEIVED' || a.state === 'APPROVED') && h('button', { type: 'button', class: 'small', 'data-key': `refuse-${a.id}`, 'aria-label': `Refuse ${a.email}`, onclick: () => decide(a, 'refuse') }, 'Refuse…'),
  ];
  const decide = (a, action) => {
    const again = a.state === 'APPROVED';
    const [title, text, yes] = action === 'refuse'
      ? [`Refuse ${a.email}?`, again ? 'The links of its mails end. The applicant is not informed.' : 'The applicant is not informed.', 'Refuse']
      : again ? [`Send another mail to ${a.email}?`, 'The links of the mails before end.', 'Send']
        : [`Approve ${a.email}?`, 'A mail with a link to a key of the sandbox is sent.', 'Approve'];
    confirm({
      title, text, yes, danger: action === 'refuse', act: () => send('POST', `/console/api/applications/${encodeURIComponent(a.id)}/${action}`, { state: a.state }),
      done: () => {
        say(`${a.email}: ${action === 'refuse' ? 'refused' : again ? 'another mail is queued' : 'approved'}`);
        p.poll();
      },
    });
  };
  byID('refuse-many').addEventListener('click', () => {
    const from = h('input', { autocomplete: 'off', maxlength: '254', placeholder: 'example.org' });
    const days = h('input', { type: 'number', min: '0', max: '30', step: 'any', inputmode: 'decimal', autocomplete: 'off' });
    confirm({
      title: 'Refuse many applications?', danger: true, yes: 'Refuse all of these',
      text: 'Those that are not approved and that both fields select, unconfirmed ones too. The applicants are not informed. This can’t be undone.',
      fields: [field('Of the address or host', from, 'Empty: of any.'), field('Older than so many days', days, 'Empty: of any age.')],
      act: () => send('POST', '/console/api/applications/refuse', {
        ...(from.value.trim() && { allFrom: from.value.trim() }),
        ...(days.value && { olderThan: new Date(Date.now() - Number(days.value) * 86_400_000).toISOString() }),
      }),
      done: ({ refused }) => {
        say(`${plural(refused, 'application')} refused`);
        p.poll();
      },
    });
  });
  choices(p, 'state', path);
  return p;
}

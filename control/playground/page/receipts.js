// The receipts as they arrive, by the live stream and by this page's own requests.

import { byID, h, put, say, table, tag } from './dom.js';
import { drawFigures } from './figures.js';
import { clock, lose, changed, onChange, state } from './state.js';

const seen = { receipts: [], refusals: [], trips: [], ids: new Set() };
let stream = null;
let watched = null; // the tenant of the stream

const mostShown = 50;
const mostKept = 1000;

// observed notes what this page itself has delivered.
export function observed(answer, body) {
  if (answer.status === 0 || answer.status === 429) return;
  seen.trips = [...seen.trips, answer.ms].slice(-mostKept);
  if (answer.ok) addReceipt({ rightId: body.rightId, data: answer.data });
  else if (stream?.readyState !== EventSource.OPEN) addRefusal({ rightId: body.rightId, error: answer.error, message: answer.message, violations: answer.violations });
  draw();
}

function addReceipt(event) {
  const { receipt } = event.data;
  if (seen.ids.has(receipt.receiptId)) return;
  seen.ids.add(receipt.receiptId);
  seen.receipts = [{ ...event, fresh: true }, ...seen.receipts].slice(0, mostKept);
}

function addRefusal(event) {
  seen.refusals = [...seen.refusals, ...(event.violations ?? [{ code: event.error }]).map((v) => v.code)].slice(-mostKept);
}

function draw() {
  drawFigures(seen);
  const rows = seen.receipts.slice(0, mostShown).map((r) => ({
    attributes: { class: r.fresh ? 'new' : undefined },
    cells: [clock(r.data.receipt.issuedAt), r.data.substrate, r.data.receipt.spatialAnchorId, String(Math.round(r.data.receipt.dwellMs)),
      r.data.metering.metered ? tag('METERED', 'good') : tag(r.data.metering.reason, 'warn'), h('code', null, r.data.receipt.receiptId)],
  }));
  for (const r of seen.receipts) r.fresh = false;
  put('receipts', rows.length === 0
    ? h('p', { class: 'status' }, 'No receipt yet. Deliver something above, or seal a pack below: it makes some by itself.')
    : table(`${seen.receipts.length} ${seen.receipts.length === 1 ? 'receipt' : 'receipts'} since this page was opened${rows.length < seen.receipts.length ? `, the newest ${rows.length} of them shown` : ''}`,
      [{ name: 'Issued' }, { name: 'Substrate' }, { name: 'Anchor' }, { name: 'Dwell, ms', number: true }, { name: 'Billing' }, { name: 'Receipt' }], rows));
}

let due = 0; // many events at once are one drawing

function soon() {
  if (due === 0) {
    due = setTimeout(() => {
      due = 0;
      draw();
    }, 60);
  }
}

const status = (text) => { byID('stream-status').textContent = text; };

function watch() {
  stream = new EventSource('/api/playground/events');
  const of = stream;
  of.addEventListener('open', () => status('Live: what is delivered for your sandbox appears here at once.'));
  of.addEventListener('receipt', (e) => {
    addReceipt(JSON.parse(e.data));
    soon();
  });
  of.addEventListener('refusal', (e) => {
    addRefusal(JSON.parse(e.data));
    soon();
  });
  of.addEventListener('end', (e) => {
    if (JSON.parse(e.data).reason !== 'DROPPED') return; // the browser begins anew
    leave();
    lose();
    changed();
    status('Your sandbox is gone, and with it the stream.');
  });
  of.addEventListener('error', () => {
    if (of !== stream) return;
    if (of.readyState === EventSource.CONNECTING) {
      status('The stream was interrupted; it begins again in a moment.');
      return;
    }
    byID('stream-status').replaceChildren('The live stream is not available: perhaps two other tabs watch this sandbox. What this page delivers is shown all the same. ',
      h('button', { type: 'button', class: 'small', onclick: watch }, 'Try again'));
    say('The live stream is not available');
  });
}

function leave() {
  stream?.close();
  stream = null;
  watched = null;
}

// follow keeps the stream to the sandbox that there is.
function follow() {
  const tenant = state.inspection?.tenant.tenantId ?? null;
  if (tenant === watched) return;
  leave();
  watched = tenant;
  if (tenant && !document.hidden) watch();
  else status('The live stream begins with your sandbox.');
}

export function startReceipts() {
  onChange(follow);
  // A tab that nobody looks at needs no stream, of which there are not many.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) {
      stream?.close();
      stream = null;
    } else if (watched && !stream) {
      watch();
    }
  });
  draw();
}

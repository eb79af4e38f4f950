// The entries of a pack: events, of which deliveries hold a signed receipt.

import { canonical, parse } from './canonical.js';
import { verify } from './ed25519.js';
import { base64url, fromBase64url, utf8 } from './encoding.js';
import { keyFault } from './keys.js';
import { sha256 } from './sha2.js';
import * as shapes from './shapes.js';

export const delivered = 'delivery.recorded';

const digits = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

// momentOf is the time in an id, in milliseconds.
const momentOf = (id) => Array.from(id.slice(4, 14)).reduce((n, c) => n * 32 + digits.indexOf(c), 0);

// readEvent reads the text of an entry. It returns the event, or the code of what is wrong.
export function readEvent(text) {
  const event = parse(text);
  if (event === undefined || utf8(text).length > 2 ** 20 || !shapes.fits(event, shapes.event)) return { code: 'entry.altered' };
  if (momentOf(event.eventId) !== Date.parse(event.at)) return { code: 'entry.altered' };
  if (event.type === delivered) {
    if (!shapes.isDelivery(event.data)) return { code: 'entry.altered' };
    const code = deliveryFault(event);
    if (code) return { event, code };
  }
  return { event };
}

// witnessOf is the hash that binds a receipt to its event.
export function witnessOf(event) {
  const { receipt: _, signature: __, ...rest } = event.data;
  return base64url(sha256(utf8(canonical({ ...event, data: rest }))));
}

// deliveryFault holds the parts of a delivery against each other; null if they agree.
function deliveryFault(event) {
  const { receipt, metering, rightId } = event.data;
  if (!/^edge:.+:[\w-]{43}$/s.test(receipt.witness) || !receipt.witness.endsWith(`:${witnessOf(event)}`)) return 'witness.mismatch';
  const agree = canonical(event.subject) === canonical({ id: rightId, kind: 'right' }) &&
    event.at === receipt.issuedAt && receipt.renderedAt <= receipt.issuedAt && event.eventId.slice(4) === receipt.receiptId.slice(4) &&
    metering.quantityMs === (metering.metered ? Math.floor(receipt.dwellMs) : 0) &&
    metering.metered === (metering.impressions !== '0') &&
    metering.metered === (metering.reason === 'METERED') && metering.metered === (metering.reasons.length === 0) &&
    (metering.metered || metering.reasons[0] === metering.reason);
  return agree ? null : 'entry.altered';
}

// receiptFault checks who signed a receipt, when, and the signature; null if it is sound.
export async function receiptFault(receipt, signature, keys, purposes, proven) {
  const key = keys.get(signature.keyId);
  const fault = keyFault(key, purposes, receipt.issuedAt, proven);
  if (fault) return fault;
  const sound = await verify(fromBase64url(key.publicKey), fromBase64url(signature.value), utf8(canonical(receipt)));
  return sound ? null : 'signature.invalid';
}

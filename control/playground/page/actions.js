// What can be done with each kind of record: the request, and the fields that it takes.

import { state } from './state.js';

const reason = { name: 'reason', label: 'Reason', value: '', hint: 'Kept in the audit log for good: no place for personal data.' };

const list = (text) => text.split(',').map((part) => part.trim()).filter(Boolean);

const given = (name, value) => (value ? { [name]: value } : {});

// limits are the fields of a new right's scope.
const limits = [
  { name: 'campaigns', label: 'Campaigns', value: 'playground', hint: 'With commas between them. None: all.' },
  { name: 'within', label: 'Only in the regions', value: '', hint: 'Codes as DE or US-NY, with commas between them. None: everywhere.' },
  { name: 'channels', label: 'Only on the channels', value: '', hint: 'With commas between them. None: all.' },
  { name: 'maxSpeedMph', label: 'Only up to the speed, in mph', value: '', hint: 'None: what the gate’s rules allow.' },
];

// scopeOf makes a scope of what limits say: what is left empty limits nothing.
function scopeOf({ campaigns, within, channels, maxSpeedMph }) {
  const lists = Object.entries({ campaigns: list(campaigns), regions: list(within), channels: list(channels) }).filter(([, values]) => values.length > 0);
  return { ...Object.fromEntries(lists), ...(maxSpeedMph !== '' && { maxSpeedMph: Number(maxSpeedMph) }) };
}

// said is a scope in words.
const said = (scope) => Object.entries(scope ?? {}).map(([name, value]) => `${name === 'maxSpeedMph' ? 'up to (mph)' : name}: ${typeof value === 'object' ? Object.entries(value).map(([key, of]) => (Array.isArray(value) ? of : `${key} = ${of}`)).join(', ') : value}`).join('; ') || 'no limit';

const regions = { name: 'regions', label: 'Regions', value: 'US-NY', hint: 'Codes with commas between them. A part of a right is never wider than the right.' };

const substrate = () => ({
  name: 'substrate', label: 'Substrate', value: 'DRONE', options: (state.gate?.substrates ?? []).map((s) => [s.substrate, s.substrate]),
});

function ofBasis(basis) {
  return [{
    title: 'Issue a right', path: '/api/sandbox/rights/issue', fields: [substrate(), ...limits],
    body: (v) => ({ basisId: basis.id, substrate: v.substrate, scope: scopeOf(v), effectiveFrom: new Date().toISOString() }),
  }];
}

function ofRight(right) {
  const all = [];
  if (right.state === 'ACTIVE') {
    all.push({ title: 'Suspend', path: '/api/sandbox/rights/suspend', fields: [reason], body: (v) => ({ rightId: right.id, ...given('reason', v.reason) }) });
  }
  if (right.state === 'SUSPENDED') {
    all.push({ title: 'Resume', path: '/api/sandbox/rights/suspend', fields: [reason], body: (v) => ({ rightId: right.id, action: 'resume', ...given('reason', v.reason) }) });
  }
  if (right.state === 'ACTIVE') {
    all.push({
      title: 'Open a challenge', path: '/api/sandbox/challenges/open', fields: [{ ...reason, value: 'the campaign is ours' }],
      body: (v) => ({ rightId: right.id, reason: v.reason }),
    });
  }
  if (right.effectiveState === 'ACTIVE' || right.effectiveState === 'NOT_BEGUN') {
    const from = () => new Date(Math.max(Date.now(), Date.parse(right.effectiveFrom))).toISOString();
    all.push({
      title: 'Propose an offer', path: '/api/sandbox/offers/propose', fields: [{ name: 'toOrgId', label: 'To organisation', value: 'org_partner' }, regions],
      body: (v) => ({ rightId: right.id, toOrgId: v.toOrgId, scope: { regions: list(v.regions) } }),
    }, {
      title: 'Derive a right', path: '/api/sandbox/rights/issue', fields: [regions],
      body: (v) => ({ basisId: right.basisId, substrate: right.substrate, parentRightId: right.id, scope: { regions: list(v.regions) }, effectiveFrom: from() }),
    });
  }
  if (right.state !== 'REVOKED') {
    all.push({ title: 'Revoke', danger: true, note: 'A revoked right stays revoked.', path: '/api/sandbox/rights/revoke', fields: [reason], body: (v) => ({ rightId: right.id, ...given('reason', v.reason) }) });
  }
  return all;
}

function ofOffer(offer) {
  if (offer.state !== 'PROPOSED') return [];
  return [
    { title: 'Accept', note: 'Accepting issues the right that the offer asks for.', path: '/api/sandbox/offers/accept', fields: [], body: () => ({ offerId: offer.id }) },
    { title: 'Counter', path: '/api/sandbox/offers/counter', fields: [regions], body: (v) => ({ offerId: offer.id, scope: { regions: list(v.regions) } }) },
    { title: 'Withdraw', path: '/api/sandbox/offers/withdraw', fields: [reason], body: (v) => ({ offerId: offer.id, ...given('reason', v.reason) }) },
    { title: 'Reject', path: '/api/sandbox/offers/withdraw', fields: [reason], body: (v) => ({ offerId: offer.id, action: 'reject', ...given('reason', v.reason) }) },
  ];
}

function ofChallenge(challenge) {
  if (challenge.state !== 'OPEN') return [];
  const resolution = { ...reason, name: 'resolution', label: 'Resolution' };
  const resolve = (title, more, extra) => ({
    title, ...extra, path: '/api/sandbox/challenges/resolve', fields: [resolution], body: (v) => ({ challengeId: challenge.id, ...more, ...given('resolution', v.resolution) }),
  });
  return [
    resolve('Overturn', { upheld: false }, { note: 'The right stays as it is.' }),
    resolve('Uphold', { upheld: true }, { danger: true, note: 'The right is revoked.' }),
    resolve('Withdraw', { action: 'withdraw' }, { note: 'The challenger backs down.' }),
  ];
}

// found is the record with an id: what it is called, the fields to show, and its actions.
export function found(id) {
  const { bases, rights, offers, challenges } = state.inspection;
  const of = (list) => list.find((r) => r.id === id);
  const basis = of(bases);
  if (basis) return { kind: 'Basis', title: basis.title, record: basis, facts: { Kind: basis.kind, Reference: basis.reference, Jurisdiction: basis.jurisdiction }, actions: ofBasis(basis) };
  const right = of(rights);
  if (right) {
    return {
      kind: right.parentRightId ? 'Derived right' : 'Right', title: right.substrate, record: right, actions: ofRight(right),
      facts: { Scope: said(right.scope), From: day(right.effectiveFrom), Until: day(right.effectiveUntil), Holder: right.holderOrgId, Reason: right.stateReason, 'Stopped by': right.blockedBy },
    };
  }
  const offer = of(offers);
  if (offer) return { kind: 'Offer', title: `to ${offer.toOrgId}`, record: offer, facts: { From: offer.fromOrgId, Scope: said(offer.scope), 'Right from': day(offer.effectiveFrom), 'Right until': day(offer.effectiveUntil), Terms: offer.termsRef, Expires: day(offer.expiresAt) }, actions: ofOffer(offer) };
  const challenge = of(challenges);
  if (challenge) return { kind: 'Challenge', title: challenge.reason, record: challenge, facts: { By: challenge.challengerOrgId, Resolution: challenge.resolution }, actions: ofChallenge(challenge) };
  return null;
}

const day = (time) => time?.slice(0, 10);

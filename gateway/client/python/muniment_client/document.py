"""Types of requests and answers. Made by generate.py of a service's /openapi.json: do not edit."""
from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class AcceptedOffer(TypedDict):
    offer: Offer
    # The derived right; its contentHash is that of the offer.
    right: Right


class ApiKey(TypedDict):
    # When the record was made.
    createdAt: str
    # The key or the member that created it, or operator or system.
    createdBy: str
    # The developer whose key it is.
    developerId: str
    # When it expires; null or absent if never.
    expiresAt: str | None
    # The key's id.
    keyId: str
    # What the key is for.
    label: str
    # Where a key is read: when a request with it was last admitted, or a beacon made by it called, to the minute,
    # as far as it is known within seconds; null for never. What a process has counted in its last seconds is lost
    # if it is killed.
    lastUsedAt: NotRequired[str | None]
    # The part of the key before its secret.
    prefix: str
    # Grows with every change.
    revision: int
    # When it was revoked; null if it was not.
    revokedAt: str | None
    # What the key may do.
    scopes: list[str]
    # The key that replaced it in a rotation.
    successorKeyId: str | None
    # When the record was last changed.
    updatedAt: str


class ApiKeyDetails(TypedDict):
    key: ApiKey
    # Keys in force that the key created, or that what it made created, newest first, at most 100: revoke them too
    # unless they are yours.
    madeKeys: NotRequired[list[MadeApiKey]]
    # Members whom the key invited, or whom what it made invited, newest first, at most 100: remove them unless you
    # know them.
    madeMembers: NotRequired[list[MadeMember]]
    # Links in force by which payees read their parts of statements, and that the key or what it made has made,
    # newest first, at most 100: revoke them unless they are yours.
    madePayeeLinks: NotRequired[list[MadePayeeLink]]
    # Whether there are more than these: revoke some, and repeat the request.
    moreMadeKeys: NotRequired[bool]
    # Whether there are more than these: remove some, and repeat the request.
    moreMadeMembers: NotRequired[bool]
    # Whether there are more than these: revoke some, and repeat the request.
    moreMadePayeeLinks: NotRequired[bool]


class ApiKeyList(TypedDict):
    # The keys of this page.
    keys: list[ApiKey]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


class ApiKeyRotation(TypedDict):
    # When the new key expires; when absent it lives as long as the old key was meant to. It does not expire later
    # than the calling key.
    expiresAt: NotRequired[str | None]
    # How long the old key still works; a day when absent, at most 30 days.
    overlapSeconds: NotRequired[int | None]


class Basis(TypedDict):
    # SHA-256 of the document, base64url.
    contentHash: str | None
    # When the record was made.
    createdAt: str
    # Null is since ever.
    effectiveFrom: str | None
    # Exclusive; null is open.
    effectiveUntil: str | None
    # The organisation that holds it.
    holderOrgId: str
    # The record's id.
    id: str
    # Where the basis applies, as the caller spells it.
    jurisdiction: str | None
    # What kind of basis it is.
    kind: Literal["LICENSE", "CONSENT", "CONTRACT", "STATUTE", "LEGITIMATE_INTEREST"]
    # Where to read about it.
    reference: str | None
    # Grows with every change.
    revision: int
    # The record's own state.
    state: Literal["ACTIVE", "EXPIRED"]
    # Its title, for people.
    title: str
    # When the record was last changed.
    updatedAt: str


class BasisData(TypedDict):
    basis: Basis


class BasisList(TypedDict):
    # The bases of this page.
    bases: list[Basis]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


class BeaconURL(TypedDict):
    # When the beacon expires.
    expiresAt: str
    # What the player calls, with ?eid= and an id of the play's own, and dwellMs=. Anyone who has it can report
    # plays.
    url: str


class CallingKey(TypedDict):
    # The key's id.
    keyId: str
    # What the key is for.
    label: str
    # The part of the key before its secret.
    prefix: str
    # What the key may do.
    scopes: list[str]


class Challenge(TypedDict):
    # The organisation that challenges it.
    challengerOrgId: str
    # When the record was made.
    createdAt: str
    # The record's id.
    id: str
    # The challenger's reason.
    reason: str
    # The text given when it was resolved or withdrawn.
    resolution: str | None
    # Grows with every change.
    revision: int
    # The right that is challenged.
    rightId: str
    # The record's own state.
    state: Literal["OPEN", "UPHELD", "OVERTURNED", "WITHDRAWN"]
    # When the record was last changed.
    updatedAt: str


class ChallengeData(TypedDict):
    challenge: Challenge


class ChallengeList(TypedDict):
    # The challenges of this page.
    challenges: list[Challenge]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


class ChallengeResolution(TypedDict):
    # Kept in the audit log permanently: no place for personal data.
    resolution: NotRequired[str | None]
    # true: the right is revoked. false: the challenge is overturned.
    upheld: bool


class ChallengeWithdrawal(TypedDict):
    # Becomes the resolution. Kept in the audit log permanently: no place for personal data.
    reason: NotRequired[str | None]


class CheckpointData(TypedDict):
    # C2SP signed note.
    checkpoint: str


ConsistencyProof = TypedDict("ConsistencyProof", {
    # RFC 6962 consistency proof, base64url.
    "consistency": 'list[str]',
    # Checkpoint of the earlier pack, a C2SP signed note.
    "from": 'str',
    # Checkpoint of the later pack.
    "to": 'str',
})


class Contract(TypedDict):
    # The version of this contract.
    contractVersion: str
    # Version of the constraint gate's rules.
    gateVersion: str
    # SHA-256 of the whole table of rules, base64url.
    ruleset: str
    # The service's name.
    service: str
    # Version of the service; devel if it is not a release.
    version: str


class Counted(TypedDict):
    # Events of all types.
    entries: int
    # Decimal: the metered impressions.
    impressions: str
    # Receipts that are neither suppressed nor duplicates.
    metered: int
    # The metered milliseconds.
    quantityMs: int
    # How many receipts there are.
    receipts: int


class CounterOffer(TypedDict):
    # When the right that accepting issues begins, within the right's window; it may lie in the past. Absent: when
    # it is accepted, or with the right if that begins later.
    effectiveFrom: NotRequired[str | None]
    # When the right that accepting issues ends, within the right's window; exclusive. Absent: with the right.
    effectiveUntil: NotRequired[str | None]
    # The first moment at which it can't be accepted any more; absent: in 7 days.
    expiresAt: NotRequired[str | None]
    # As in an offer: what it does not name is inherited from the right, not from the offer that it answers.
    scope: NotRequired[dict[str, Any] | str | None]
    # Where the terms are; no place for personal data.
    termsRef: NotRequired[str | None]


class CounteredOffer(TypedDict):
    # The offer that it answers.
    countered: Offer
    # The counter-offer.
    offer: Offer


class Counterparty(TypedDict):
    # Its postal address on papers, in lines. Never written to events.
    address: str | None
    # When the record was made.
    createdAt: str
    # The currency of its payments, a code of ISO 4217.
    currency: str
    # Where it gets papers. Never written to events.
    email: str | None
    # The record's id.
    id: str
    # The counterparty's role.
    kind: Literal["RIGHTS_HOLDER", "PUBLISHER", "PLATFORM", "AGENCY", "OTHER"]
    # Its name on papers; null: name. Never written to events.
    legalName: str | None
    # Kept in the audit log permanently: no place for personal data.
    name: str
    # The counterparty's organisation in this service, if it has one.
    orgId: str | None
    # How many days after the issue of a paper its amount is due; null: as many as the issuer's.
    paymentDays: int | None
    # The payment destination, as your payment system names it. Never written to events.
    payoutRef: str | None
    # Whether the recipient of its services owes the tax instead; papers say so.
    reverseCharge: bool
    # Grows with every change.
    revision: int
    # The record's own state.
    state: Literal["ACTIVE", "INACTIVE"]
    # The tax on what it gets, in hundredths of a per cent: 1900 is 19 %.
    taxBps: int
    # Its tax number on papers. Never written to events.
    taxId: str | None
    # When the record was last changed.
    updatedAt: str


class CounterpartyData(TypedDict):
    counterparty: Counterparty


class CounterpartyList(TypedDict):
    # The counterparties of this page.
    counterparties: list[Counterparty]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


class CreatedApiKey(TypedDict):
    # The key itself; it can't be shown again.
    apiKey: str
    key: ApiKey


class CreatedDSARJob(TypedDict):
    # How many jobs of the tenant may be active.
    activeLimit: int
    # The new job.
    job: DSARJob


class CreatedPayeeLink(TypedDict):
    link: PayeeLink
    # What to send to the payee. It is returned this once: anyone who has it can read the page.
    url: str


class CreatedWebhook(TypedDict):
    # The secret with which receivers verify v1 signatures; it can't be shown again.
    secret: str
    # The public keys with which receivers verify v1a signatures, as libraries of Standard Webhooks take them, the
    # current one first: whpk_ and the base64 of publicKey of each key of the purpose webhook_signing in /.well-
    # known/muniment/keys.json that is not revoked.
    verifyingKeys: list[str]
    webhook: Webhook


class DSARBundleLink(TypedDict):
    # Anyone who has this link can download the bundle: keep it out of logs.
    bundleUrl: str
    # The end of the link.
    expiresAt: str
    # The job, with the link in its delivery.
    job: DSARJob


class DSARCancellation(TypedDict):
    # Recorded in the timeline, and in the private part of the event.
    reason: NotRequired[str | None]


class DSARDelivery(TypedDict):
    # Base64url.
    bundleSha256: str
    # The size of the bundle.
    bundleSizeBytes: int
    # Null once the bundle is deleted.
    bundleStoreKey: str | None
    # The operation that gives a link to download the bundle; in its own response, that link. Null once the bundle
    # is deleted, and in events.
    bundleUrl: str | None
    # Why the bundle is deleted: its time was over, or it may have had data of a person who was erased. Absent while
    # it is kept.
    deletedBecause: NotRequired[Literal["EXPIRED", "ERASURE"]]
    # When it was last downloaded completely.
    downloadedAt: str | None
    # The API key or member that requested the link.
    downloadedBy: str | None
    # When the bundle is deleted; once an erasure has ended it, when that was.
    expiresAt: str


class DSARFailure(TypedDict):
    # The failure code.
    code: Literal["MANUAL_CANCEL", "SOURCE_READ_FAILED", "PACKAGING_FAILED", "WORKER_LOST"]
    # When it failed.
    failedAt: str
    # Explanation of the code; the text may change.
    message: str
    # The process whose work failed; null if none began.
    workerId: str | None


class DSARJob(TypedDict):
    # Whether each CSV file begins with a byte order mark.
    bom: bool
    # When the record was made.
    createdAt: str
    # The bundle, once the job is READY.
    delivery: NotRequired[DSARDelivery]
    # Why the job failed, once it is FAILED.
    failure: NotRequired[DSARFailure]
    # The format of the bundle's sections.
    format: Literal["JSON", "CSV", "NDJSON", "PARQUET"]
    # Begins with dsar:, which may be written as dsar%3A in paths.
    id: str
    # The organisation's id.
    orgId: str
    # The worker's progress.
    progress: DSARProgress
    # The reason of the request.
    requestNotes: str | None
    # The requester as stated in the request; by default the key's developer.
    requestedBy: str
    # Grows with every change.
    revision: int
    # What is exported.
    scope: DSARScope
    # READY and FAILED are final.
    state: Literal["REQUESTED", "COLLECTING", "PACKAGING", "READY", "FAILED"]
    # The job's moves, oldest first.
    timeline: list[DSARTimelineEntry]
    # When the record was last changed.
    updatedAt: str


class DSARJobData(TypedDict):
    job: DSARJob


class DSARJobList(TypedDict):
    # The jobs of this page.
    jobs: list[DSARJob]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


class DSARProgress(TypedDict):
    # How many bytes of the bundle are written.
    bytesPackaged: int
    # When the worker last reported its progress.
    lastHeartbeatAt: str | None
    # How many rows are in the bundle so far.
    rowsCollected: int
    # How many rows are expected, as far as known: rows that can't be counted beforehand are added as they are read.
    rowsExpected: int
    # The process that works on the job, or last did.
    workerId: str | None


class DSARScope(TypedDict):
    # Only data about rights whose scope lists one of these campaigns; empty: all.
    campaignIds: list[str]
    # For DATA_SUBJECT: the person whose data is exported.
    dataSubjectId: str | None
    # The kind of export.
    kind: Literal["DATA_SUBJECT", "TENANT_FULL", "TENANT_SLICE"]
    # Only these substrates; empty, or with ANY: all.
    substrates: list[str]
    # For TENANT_SLICE: end of the window, exclusive.
    windowEnd: str | None
    # For TENANT_SLICE: start of the window.
    windowStart: str | None


class DSARTimelineEntry(TypedDict):
    # An API key, or control.
    actor: str
    # When.
    at: str
    # The previous state; null when the job was created.
    fromState: str | None
    # Notes, for example the reason of a cancellation.
    notes: str | None
    # The new state.
    toState: str


class Delivered(TypedDict):
    metering: MeteringDecision
    receipt: Receipt
    signature: Signature
    # The substrate whose rules were applied.
    substrate: Literal["DOOH", "CTV", "MOBILE", "STREAMING", "AUDIO", "MESSAGING", "GAMING", "GLASSES", "AR_CONTACTS", "HUD", "VOLUMETRIC", "HOLOGRAM", "WEARABLES", "AMBIENT", "NEURAL", "AUTOMOTIVE", "SMART_HOME", "ROBOTICS", "DRONE", "SATELLITE", "AVIATION", "MARITIME", "SOCIAL_FEED", "ANY"]


class Developer(TypedDict):
    # The developer's id.
    developerId: str
    # Empty when none was given.
    email: str
    # The organisation's id.
    orgId: str


class Dismissal(TypedDict):
    # The ids of the plays.
    rejectedIds: list[str]


class Dismissed(TypedDict):
    # How many were there.
    dismissed: int


class Dispute(TypedDict):
    # When the record was made.
    createdAt: str
    # The submitted evidence, oldest first.
    evidence: list[DisputeEvidence]
    # The record's id.
    id: str
    # How it was resolved; null until it is. UPHELD excludes the deliveries from settlement permanently.
    outcome: str | None
    # The organisation that raised the dispute.
    raisedByOrgId: str
    # The reason that it gave.
    reason: str
    # The disputed receipts; empty if the dispute is about a right and a window.
    receiptIds: list[str]
    # The text given with the resolution.
    resolution: str | None
    # Grows with every change.
    revision: int
    # The right whose deliveries are disputed; null if the dispute is about receipts.
    rightId: str | None
    # The record's own state.
    state: Literal["OPEN", "INVESTIGATING", "RESPONDED", "RESOLVED"]
    # When the record was last changed.
    updatedAt: str
    # When the deliveries were rendered; null if the dispute is about receipts.
    window: DisputeWindow


class DisputeData(TypedDict):
    dispute: Dispute


class DisputeEvidence(TypedDict):
    # When it was submitted.
    at: str
    # The organisation that submitted it.
    byOrgId: str
    # Where to find more.
    references: list[str]
    # The evidence.
    text: str


class DisputeList(TypedDict):
    # The disputes of this page.
    disputes: list[DisputeSummary]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


class DisputeResolution(TypedDict):
    # UPHELD excludes the deliveries from settlement permanently; REJECTED includes them again.
    outcome: Literal["UPHELD", "REJECTED"]
    # Kept in the audit log permanently: no place for personal data.
    resolution: NotRequired[str | None]


class DisputeSummary(TypedDict):
    # When the record was made.
    createdAt: str
    # The record's id.
    id: str
    # How it was resolved; null until it is. UPHELD excludes the deliveries from settlement permanently.
    outcome: str | None
    # The organisation that raised the dispute.
    raisedByOrgId: str
    # The reason that it gave.
    reason: str
    # The disputed receipts; empty if the dispute is about a right and a window.
    receiptIds: list[str]
    # The text given with the resolution.
    resolution: str | None
    # Grows with every change.
    revision: int
    # The right whose deliveries are disputed; null if the dispute is about receipts.
    rightId: str | None
    # The record's own state.
    state: Literal["OPEN", "INVESTIGATING", "RESPONDED", "RESOLVED"]
    # When the record was last changed.
    updatedAt: str
    # When the deliveries were rendered; null if the dispute is about receipts.
    window: DisputeWindow


DisputeWindow = TypedDict("DisputeWindow", {
    # Start of the window.
    "from": 'str',
    # End of the window, exclusive.
    "to": 'str',
})


class DisputedAmount(TypedDict):
    # Decimal.
    amount: str
    # A code of ISO 4217.
    currency: str


class DisputedPlay(TypedDict):
    # How long it was rendered, in milliseconds.
    dwellMs: float
    # Whether it was recorded as billed. One that repeats another is billed by that alone.
    metered: bool
    # The receipt: GET /v1/receipts/{receiptId} returns it.
    receiptId: str
    # When it was rendered.
    renderedAt: str
    # The right that it was delivered on.
    rightId: str
    # Where it was rendered: the receipt's anchor.
    spatialAnchorId: str
    # What it is worth alone, by currency, as heldAmount: empty if it is not billed or no rule rates it; null
    # without settlement:read, and of all while it can't be computed within some seconds, which may also be because
    # very many that were rendered in the same millisecond repeat each other. Lines round several together, so these
    # may add up to something else than heldAmount in the sixth fractional digit.
    worth: list[DisputedAmount] | None


DryRun = TypedDict("DryRun", {
    # Start of the period, by renderedAt; without period.
    "from": 'NotRequired[str | None]',
    # A month, a week of ISO 8601 or a day of timeZone; absent: from and to.
    "period": 'NotRequired[str | None]',
    # The rule, as in a request to create it.
    "rule": 'NewSettlementRule',
    # IANA time zone of the period, and of dates without a time; absent: the tenant's.
    "timeZone": 'NotRequired[str | None]',
    # End of the period, exclusive; without period. A draft can be issued if it was made after the end.
    "to": 'NotRequired[str | None]',
})


DryRunData = TypedDict("DryRunData", {
    # What the rule's tiers, minimum and cap change in the months that end in the period.
    "adjustments": 'list[SettlementAdjustment]',
    # The same totals with this rule.
    "after": 'list[SettlementTotal]',
    # The log position before which receipts are counted. Null while nothing is loaded.
    "asOf": 'str | None',
    # Totals of all rules without this one, by currency, without tiers, minimums and caps.
    "before": 'list[SettlementTotal]',
    # Start of the requested period.
    "from": 'str',
    # The lines of the rule.
    "lines": 'list[SettlementLine]',
    # End of the requested period, exclusive.
    "to": 'str',
    # The sum of lines and adjustments.
    "total": 'SettlementTotal',
})


class EraseRequest(TypedDict):
    # The token of a 412 response to the same request.
    confirmationToken: NotRequired[str | None]
    # The person, as deliveries name them.
    dataSubjectId: str


class Erasure(TypedDict):
    # A signed note for muniment verify, which names no person; null until it is COMPLETED.
    certificate: str | None
    # When it became COMPLETED; null until then.
    completedAt: str | None
    # What was found when the erasure was confirmed.
    counts: ErasureCounts
    # When the record was made.
    createdAt: str
    # The event that is the tombstone: subject.erased.
    eventId: str
    # The record's id.
    id: str
    # The API key that confirmed it.
    requestedBy: str
    # Grows with every change.
    revision: int
    # COMPLETED once everything is deleted and the certificate is signed.
    state: Literal["REQUESTED", "COMPLETED"]
    # Represents the person in events and records: a keyed hash, the same one in every erasure of the person.
    subjectHash: str
    # The tenant's id.
    tenantId: str
    # Personal data in events up to this time is deleted, whenever the events arrive. It is a minute after the
    # request, because clocks of nodes may be ahead by that.
    until: str
    # When the record was last changed.
    updatedAt: str


class ErasureCounts(TypedDict):
    # Bundles of exports that may hold data of the person.
    bundles: int
    # Events that will still name the person, by type, because events are permanent: by a text that everybody may
    # see, such as a dispute's reason or a label; delivery.recorded by a correlation id, an anchor or a placement.
    # telemetry counts the deliveries to others, or to nobody, whose telemetry names the person, and quarantined the
    # records that could not be loaded and name the person otherwise than as a data subject; heldRow and
    # rejectedPlay count rows whose vendor's id names the person, until they are gone.
    permanent: dict[str, int]
    # Events in the warehouse with a private part that names the person.
    privateParts: int
    # Rows of the database that name the person, by kind, such as counterparty, developer, dsarJob, dsarNote,
    # heldRow, rejectedPlay and webhookDelivery. An export of the person shows them.
    records: dict[str, int]
    # Quarantined records that name the person.
    setAside: int
    # Issued statements that keep the public name of a counterparty which names the person: the newest 1,000. They
    # are signed, so it stays there.
    statements: list[str]


class ErasureData(TypedDict):
    erasure: Erasure


class ErasureList(TypedDict):
    # The erasures of this page.
    erasures: list[Erasure]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


class EventList(TypedDict):
    # The log position up to which events were searched; null while nothing is loaded.
    asOf: str | None
    # The events of this page.
    events: list[LoggedEvent]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


class ExportEventsQuery(TypedDict):
    # Position; only events after it. Default: from the first event on.
    after: NotRequired[str]
    # Position; only events up to and including it. Default: up to the newest sealed event.
    upTo: NotRequired[str]


class FoundReceipt(TypedDict):
    # Verbatim: its canonical bytes are the leaf of the tenant's Merkle log.
    event: dict[str, Any]
    # The event's position, opaque.
    position: str
    # The signed content, verbatim.
    receipt: Receipt
    signature: Signature


class GetDisputeQuery(TypedDict):
    # true: also when and where each disputed receipt was, which requires audit:read, and what it is worth, which is
    # null without settlement:read.
    plays: NotRequired[Literal["true", "false"]]


GetMeteringQuery = TypedDict("GetMeteringQuery", {
    # The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent.
    "from": 'NotRequired[str]',
    # The end of the period, exclusive: a date or a time, as in bodies. Open when absent.
    "to": 'NotRequired[str]',
    # One right only.
    "rightId": 'NotRequired[str]',
    # Also sum by buckets of time in timeZone. Weeks begin on Monday.
    "bucket": 'NotRequired[Literal["minute", "hour", "day", "week", "month"]]',
    # IANA time zone of the buckets, and of dates without a time in from and to. Default: UTC.
    "timeZone": 'NotRequired[str]',
    # A position from an earlier response: only what is before it counts. Default: everything that is loaded now.
    "asOf": 'NotRequired[str]',
    # The most records in the response.
    "limit": 'NotRequired[int]',
    # The nextCursor of the previous response.
    "cursor": 'NotRequired[str]',
    # Also sum by anchor, placement or campaign. Repeat the parameter, or separate values with commas.
    "by": 'NotRequired[list[str]]',
    # Requires format csv: the file begins with a byte order mark, as spreadsheets need it to read UTF-8.
    "bom": 'NotRequired[Literal["true", "false"]]',
    # json: a page in the envelope, with totals. csv, ndjson: a file of all rows, without limit and cursor.
    "format": 'NotRequired[Literal["json", "csv", "ndjson"]]',
})


GetRefusalsQuery = TypedDict("GetRefusalsQuery", {
    # The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent.
    "from": 'NotRequired[str]',
    # The end of the period, exclusive: a date or a time, as in bodies. Open when absent.
    "to": 'NotRequired[str]',
    # One right only.
    "rightId": 'NotRequired[str]',
    # Also sum by buckets of time in timeZone. Weeks begin on Monday.
    "bucket": 'NotRequired[Literal["minute", "hour", "day", "week", "month"]]',
    # IANA time zone of the buckets, and of dates without a time in from and to. Default: UTC.
    "timeZone": 'NotRequired[str]',
    # A position from an earlier response: only what is before it counts. Default: everything that is loaded now.
    "asOf": 'NotRequired[str]',
    # The most records in the response.
    "limit": 'NotRequired[int]',
    # The nextCursor of the previous response.
    "cursor": 'NotRequired[str]',
    # One rule only.
    "rule": 'NotRequired[str]',
})


GetSettlementQuery = TypedDict("GetSettlementQuery", {
    # The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent.
    "from": 'NotRequired[str]',
    # The end of the period, exclusive: a date or a time, as in bodies. Open when absent.
    "to": 'NotRequired[str]',
    # Only lines in this currency.
    "currency": 'NotRequired[str]',
    # Only receipts of deliveries under these rights, in lines, totals and unrated; repeat the parameter, or
    # separate values with commas.
    "rightId": 'NotRequired[list[str]]',
    # right: lines by right. campaign: each line is repeated for every campaign that the right's scope lists, also
    # if its rule matches another one of them; totals count it once.
    "by": 'NotRequired[Literal["right", "campaign"]]',
    # A position from an earlier response: only what is before it counts. Default: everything that is loaded now.
    "asOf": 'NotRequired[str]',
    # The most records in the response.
    "limit": 'NotRequired[int]',
    # The nextCursor of the previous response.
    "cursor": 'NotRequired[str]',
})


class GetStatementQuery(TypedDict):
    # The format of the response.
    format: NotRequired[Literal["json", "csv", "html", "pdf", "signed"]]
    # Requires format csv: which table. lines, the default, has a row for each line and adjustment, whose amounts
    # sum to the total; shares one for each share of them; changes one for each change of a correction, which sum to
    # its difference, and with payee to what that one gets more or less: then a row may have several reasons,
    # separated by spaces.
    table: NotRequired[Literal["lines", "shares", "changes"]]
    # Requires format csv, html or pdf: only the part of this counterparty.
    payee: NotRequired[str]
    # Requires format csv: the file begins with a byte order mark, as spreadsheets need it to read UTF-8.
    bom: NotRequired[Literal["true", "false"]]


class Health(TypedDict):
    # Whether requests are answered.
    status: Literal["ok"]


class HeldRow(TypedDict):
    # When the record was made.
    createdAt: str
    # Why the delivery was refused. The row may be sent again.
    error: NotRequired[RowError]
    # When a HELD row becomes too old to be delivered: 30 days after its play, or as the operator has configured.
    # For other states: when the row is deleted.
    expiresAt: str
    # The record's id.
    id: str
    # The vendor's type of id, of a row with a vendor's id.
    idType: NotRequired[str]
    # When the content was played.
    playedAt: str
    # What the row waits for, or waited for last: a mapping of its vendor's id, or the end of a suspension of its
    # right or of a right above it.
    reason: Literal["UNMAPPED", "RIGHT_SUSPENDED"]
    # The row's receipt.
    receiptId: str | None
    # The right of a row that waits for it; null of one that waits for a mapping.
    rightId: str | None
    # The row as it was sent, without dataSubjectId, dataSubjectIds and telemetry; null once it is no longer HELD.
    row: dict[str, Any] | None
    # REPLAYED once it was delivered, with its receiptId, or refused, with the error.
    state: Literal["HELD", "REPLAYED", "EXPIRED"]
    # When the record was last changed.
    updatedAt: str
    # The row's vendor, if it has one.
    vendor: NotRequired[str]
    # The vendor's id, of a row that has one.
    vendorId: NotRequired[str]


class HeldRowList(TypedDict):
    # The rows of this page.
    held: list[HeldRow]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


class Import(TypedDict):
    # The number of lines by status.
    counts: ImportCounts
    # The result of each line, in their order; empty lines are omitted.
    rows: list[ImportedRow]


class ImportCounts(TypedDict):
    # Mappings that were created.
    created: int
    # Lines that were refused.
    refused: int
    # Mappings that existed already.
    unchanged: int


class ImportedRow(TypedDict):
    # Why the line is refused.
    error: NotRequired[RowError]
    # The line of the body, from 1; in CSV the header is line 1.
    line: int
    # The mapping; for a refused line, the mapping that it would overlap.
    mappingId: NotRequired[str]
    # unchanged: an identical mapping existed already.
    status: Literal["created", "unchanged", "refused"]


class InclusionProof(TypedDict):
    # Verbatim: it is the leaf.
    event: dict[str, Any]
    # C2SP tlog-proof.
    proof: str


class IngestBatch(TypedDict):
    # The plays, each of which has a result of its own.
    rows: list[Row]
    # The vendor of rows that name none.
    vendor: NotRequired[str | None]


class Ingested(TypedDict):
    counts: RowCounts
    # One for each row, in their order.
    results: list[RowResult]
    # What the sender of a document should know of its rows, such as that each of them sums up several plays.
    warnings: NotRequired[list[str]]


class Issuer(TypedDict):
    # Its postal address on papers, in lines. Never written to events.
    address: str | None
    # When the record was made.
    createdAt: str
    # Where it is asked about papers. Never written to events.
    email: str | None
    # The record's id.
    id: str
    # Its name on papers. Never written to events.
    legalName: str
    # What each paper says besides, in lines. Never written to events.
    note: str | None
    # How many days after its issue a paper is due, unless the counterparty's terms say otherwise.
    paymentDays: int
    # Grows with every change.
    revision: int
    # Its tax number on papers. Never written to events.
    taxId: str | None
    # When the record was last changed.
    updatedAt: str


class IssuerData(TypedDict):
    # Absent until it is set.
    issuer: NotRequired[Issuer]


class LineReceipt(TypedDict):
    # Decimal: the metered impressions.
    impressions: str
    # The metering basis of the line.
    meteringBasis: str
    # The metered milliseconds.
    quantityMs: int
    # The receipt: GET /v1/receipts/{receiptId} returns it, with its proof at .../proof.
    receiptId: str
    # When the content was rendered.
    renderedAt: str
    # The right of the line.
    rightId: str
    # The rule of the line.
    ruleId: str
    # The leaf of the log with the rule's text by which the line is rated.
    ruleLeaf: int


class LineReceipts(TypedDict):
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The receipts of this page, in the order of the log. A page may have fewer receipts than the limit, or none,
    # while nextCursor is set.
    receipts: list[LineReceipt]


class ListApiKeysQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]


class ListBasesQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only those that end, and later than this: a date or a time, as in bodies. With the current time, those that
    # have not ended yet.
    endsAfter: NotRequired[str]
    # Only those that end at this time or before it: a date or a time, as in bodies.
    endsBy: NotRequired[str]


class ListChallengesQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only challenges of this right.
    rightId: NotRequired[str]
    # Only challenges in this state.
    state: NotRequired[Literal["OPEN", "UPHELD", "OVERTURNED", "WITHDRAWN"]]


class ListCounterpartiesQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only counterparties in this state.
    state: NotRequired[Literal["ACTIVE", "INACTIVE"]]


class ListDisputesQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only disputes about this right by its id, not those about its receipts.
    rightId: NotRequired[str]
    # Only disputes that name this receipt.
    receiptId: NotRequired[str]
    # Only disputes in this state.
    state: NotRequired[Literal["OPEN", "INVESTIGATING", "RESPONDED", "RESOLVED"]]


class ListDsarJobsQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only jobs in this state.
    state: NotRequired[Literal["REQUESTED", "COLLECTING", "PACKAGING", "READY", "FAILED"]]


class ListErasuresQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]


ListEventsQuery = TypedDict("ListEventsQuery", {
    # Only events of these kinds, such as delivery.recorded; repeat the parameter, or separate values with commas.
    # x-event-kinds in this document lists all kinds.
    "type": 'NotRequired[list[str]]',
    # Only events about this kind of thing, such as right or key.
    "subjectKind": 'NotRequired[str]',
    # Only events about the thing with this id.
    "subjectId": 'NotRequired[str]',
    # Only events caused by this kind of actor.
    "actorKind": 'NotRequired[Literal["key", "member", "node", "operator", "system"]]',
    # Only events caused by this actor.
    "actorId": 'NotRequired[str]',
    # Only events about this right, including its deliveries; short for subjectKind=right and subjectId.
    "rightId": 'NotRequired[str]',
    # The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent.
    "from": 'NotRequired[str]',
    # The end of the period, exclusive: a date or a time, as in bodies. Open when absent.
    "to": 'NotRequired[str]',
    # Only events after this position.
    "after": 'NotRequired[str]',
    # Only events before this position.
    "before": 'NotRequired[str]',
    # desc: newest first. asc: oldest first; to continue a listing later, pass the position of its last event as
    # after.
    "order": 'NotRequired[Literal["asc", "desc"]]',
    # A position from an earlier response: only what is before it counts. Default: everything that is loaded now.
    "asOf": 'NotRequired[str]',
    # The most records in the response.
    "limit": 'NotRequired[int]',
    # The nextCursor of the previous response.
    "cursor": 'NotRequired[str]',
})


class ListHeldRowsQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only rows of this id.
    vendorId: NotRequired[str]
    # Only rows that wait for this right, or did last.
    rightId: NotRequired[str]
    # Only rows that wait for this, or did last.
    reason: NotRequired[Literal["UNMAPPED", "RIGHT_SUSPENDED"]]
    # Only rows in this state.
    state: NotRequired[Literal["HELD", "REPLAYED", "EXPIRED"]]


class ListMappingsQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only mappings of this vendor's ids.
    vendor: NotRequired[str]
    # Only mappings of ids of this kind.
    idType: NotRequired[str]
    # Only mappings of this id.
    vendorId: NotRequired[str]
    # Only mappings to this right.
    rightId: NotRequired[str]
    # Only mappings in this state.
    state: NotRequired[Literal["ACTIVE", "RETIRED"]]


class ListMembersQuery(TypedDict):
    # Those in this state. Default: all.
    state: NotRequired[Literal["INVITED", "ACTIVE", "REMOVED"]]
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]


class ListOffersQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only offers about this right.
    rightId: NotRequired[str]
    # Only offers in this state.
    state: NotRequired[Literal["PROPOSED", "COUNTERED", "WITHDRAWN", "REJECTED", "ACCEPTED", "EXPIRED"]]


class ListPayablesQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only those of this statement.
    statementId: NotRequired[str]
    # Only those of this payee.
    counterpartyId: NotRequired[str]
    # Only the one with this number.
    number: NotRequired[str]
    # Only those in this state.
    state: NotRequired[Literal["DUE", "PAID"]]
    # Only what was issued on this day or later, in the tenant's time zone.
    issuedSince: NotRequired[str]
    # Only what was issued on this day or before.
    issuedBy: NotRequired[str]
    # Only what is due on this day or later, in the tenant's time zone.
    dueSince: NotRequired[str]
    # Only what is due on this day or before.
    dueBy: NotRequired[str]
    # true: only what is still open although it was due before today, in the tenant's time zone; no credits, which
    # nobody pays.
    overdue: NotRequired[Literal["true", "false"]]


class ListPayeeLinksQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only those to parts of this statement.
    statementId: NotRequired[str]
    # Only those of this payee.
    counterpartyId: NotRequired[str]
    # Only those in this state.
    state: NotRequired[Literal["ACTIVE", "REVOKED"]]


class ListPayoutsQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only what is due on this day or before; absent: today, in the tenant's time zone.
    dueBy: NotRequired[str]
    # Only those in this currency.
    currency: NotRequired[str]
    # The format of the response. A file has all payouts: limit and cursor require json.
    format: NotRequired[Literal["json", "csv"]]
    # Requires format csv: the file is for spreadsheets. It begins with a byte order mark, and an apostrophe
    # precedes text that would be a formula.
    bom: NotRequired[Literal["true", "false"]]


ListProofPacksQuery = TypedDict("ListProofPacksQuery", {
    # The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent.
    "from": 'NotRequired[str]',
    # The end of the period, exclusive: a date or a time, as in bodies. Open when absent.
    "to": 'NotRequired[str]',
    # Only this pack and those before it.
    "upTo": 'NotRequired[str]',
    # The most records in the response.
    "limit": 'NotRequired[int]',
    # The nextCursor of the previous response.
    "cursor": 'NotRequired[str]',
})


ListReceiptsQuery = TypedDict("ListReceiptsQuery", {
    # Only receipts with this tracing id, byte for byte.
    "correlationId": 'NotRequired[str]',
    # Only receipts of deliveries at this anchor.
    "spatialAnchorId": 'NotRequired[str]',
    # Only receipts of deliveries under this right.
    "rightId": 'NotRequired[str]',
    # Only receipts whose id ends with these characters, as somebody reads them from a paper: small letters count as
    # large, I and L as 1, O as 0. Requires from and to, at most 7 days apart.
    "receiptIdEnd": 'NotRequired[str]',
    # json: a page in the envelope. csv, ndjson, parquet: a file of all receipts, without limit and cursor.
    "format": 'NotRequired[Literal["json", "csv", "ndjson", "parquet"]]',
    # Requires format csv: the file begins with a byte order mark, as spreadsheets need it to read UTF-8.
    "bom": 'NotRequired[Literal["true", "false"]]',
    # The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent.
    "from": 'NotRequired[str]',
    # The end of the period, exclusive: a date or a time, as in bodies. Open when absent.
    "to": 'NotRequired[str]',
    # A position from an earlier response: only what is before it counts. Default: everything that is loaded now.
    "asOf": 'NotRequired[str]',
    # The most records in the response.
    "limit": 'NotRequired[int]',
    # The nextCursor of the previous response.
    "cursor": 'NotRequired[str]',
})


class ListRefusedRequestsQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only those with this key.
    keyId: NotRequired[str]
    # Only those with this error.
    code: NotRequired[Literal["AUTH_INVALID", "SCOPE_MISSING", "RESOURCE_NOT_FOUND", "STATE_CONFLICT", "PRECONDITION_FAILED", "VALIDATION_FAILED", "RATE_LIMITED", "BAD_REQUEST", "INTERNAL_ERROR"]]


class ListRejectedPlaysQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]


class ListRightsQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only rights under this basis.
    basisId: NotRequired[str]
    # Only rights on this substrate.
    substrate: NotRequired[Literal["DOOH", "CTV", "MOBILE", "STREAMING", "AUDIO", "MESSAGING", "GAMING", "GLASSES", "AR_CONTACTS", "HUD", "VOLUMETRIC", "HOLOGRAM", "WEARABLES", "AMBIENT", "NEURAL", "AUTOMOTIVE", "SMART_HOME", "ROBOTICS", "DRONE", "SATELLITE", "AVIATION", "MARITIME", "SOCIAL_FEED", "ANY"]]
    # Only rights whose own state it is.
    state: NotRequired[Literal["ACTIVE", "SUSPENDED", "REVOKED"]]
    # Only rights derived directly from this one.
    parentRightId: NotRequired[str]
    # Only those that end, and later than this: a date or a time, as in bodies. With the current time, those that
    # have not ended yet.
    endsAfter: NotRequired[str]
    # Only those that end at this time or before it: a date or a time, as in bodies.
    endsBy: NotRequired[str]


class ListSettlementRulesQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only rules in this state.
    state: NotRequired[Literal["ACTIVE", "RETIRED"]]
    # Only rules whose match names this right.
    rightId: NotRequired[str]
    # Only rules that give this counterparty a share.
    counterpartyId: NotRequired[str]


class ListStatementReceiptsQuery(TypedDict):
    # Only receipts behind lines of this right.
    rightId: NotRequired[str]
    # Only receipts behind lines of this rule.
    ruleId: NotRequired[str]
    # Only receipts behind lines of this metering basis.
    meteringBasis: NotRequired[Literal["gross", "viewable", "audible", "delivered"]]
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]


class ListStatementsQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only statements in this state.
    state: NotRequired[Literal["DRAFT", "DISCARDED", "ISSUED", "SETTLED", "VOIDED"]]
    # Only statements in this currency.
    currency: NotRequired[str]
    # Only statements of this counterparty.
    counterpartyId: NotRequired[str]
    # Only corrections of this statement, which is the first one of its period.
    corrects: NotRequired[str]


class ListWebhookDeliveriesQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]
    # Only deliveries in this state.
    state: NotRequired[Literal["PENDING", "DELIVERED", "FAILED"]]


class ListWebhooksQuery(TypedDict):
    # The most records in the response.
    limit: NotRequired[int]
    # The nextCursor of the previous response.
    cursor: NotRequired[str]


class LoggedEvent(TypedDict):
    # Verbatim: its canonical bytes are the leaf of the tenant's Merkle log.
    event: dict[str, Any]
    # Opaque; usable wherever a position is a parameter.
    position: str


class LoggedReceipt(TypedDict):
    # Verbatim: its canonical bytes are the leaf of the tenant's Merkle log.
    event: dict[str, Any]
    # The event's position, opaque.
    position: str
    # The signed content, verbatim.
    receipt: Receipt
    # Null until a proof pack holds the event.
    sealed: SealedLeaf
    signature: Signature


class MadeApiKey(TypedDict):
    # When the record was made.
    createdAt: str
    # The key or the member that created it.
    createdBy: str
    # When it expires; null or absent if never.
    expiresAt: str | None
    # The key's id.
    keyId: str
    # What the key is for.
    label: str


class MadeMember(TypedDict):
    # When the record was made.
    createdAt: str
    # The key or the member who invited the member.
    invitedBy: str
    # The member.
    memberId: str
    # What the member may do.
    role: Literal["owner", "finance", "operations", "viewer"]
    # Whether the member has signed in: ACTIVE, or not yet: INVITED.
    state: Literal["INVITED", "ACTIVE"]


class MadePayeeLink(TypedDict):
    # When the record was made.
    createdAt: str
    # The key or the member that made it.
    createdBy: str
    # When it stops to work.
    expiresAt: str
    # The link.
    payeeLinkId: str
    # The statement that it shows a part of.
    statementId: str


class Mapping(TypedDict):
    # When the record was made.
    createdAt: str
    # Start of the window: plays at this moment or later resolve.
    effectiveFrom: str
    # End of the window, exclusive; null is open. Equal to effectiveFrom if the mapping was retired before it began.
    effectiveUntil: str | None
    # The record's id.
    id: str
    # The vendor's type of id.
    idType: str
    # Grows with every change.
    revision: int
    # RETIRED once its window was ended; earlier plays still resolve.
    state: Literal["ACTIVE", "RETIRED"]
    target: MappingTarget
    # When the record was last changed.
    updatedAt: str
    # The vendor that issued the id.
    vendor: str
    # The id.
    vendorId: str


class MappingData(TypedDict):
    mapping: Mapping


class MappingList(TypedDict):
    # The mappings of this page.
    mappings: list[Mapping]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The number of mappings that the filters select, over all pages.
    total: int


class MappingTarget(TypedDict):
    # The right that its plays are deliveries on.
    rightId: str
    # The anchor where the content is shown.
    spatialAnchorId: str
    # The placement within the anchor, for rows that name none.
    spatialPlacementId: str | None


class Member(TypedDict):
    # Whether the member has signed in at the OpenID Connect provider of the service: no other account there signs
    # in as the member.
    bound: bool
    # When the record was made.
    createdAt: str
    # Where links to sign in are sent. Never written to events.
    email: str
    # The record's id.
    id: str
    # The API key or the member that invited the member, or operator or system.
    invitedBy: str
    # The OpenID Connect provider by which the member has signed in; empty: by none yet, or by one that the service
    # doesn't know since its database was restored (bound). Never written to events.
    issuer: str
    # Empty when none was given. Never written to events.
    name: str
    # Grows with every change.
    revision: int
    # What the member may do: owner holds *; finance reads, settles and disputes; operations reads, and changes
    # rights, offers, challenges, webhooks, disputes and packs; viewer reads.
    role: Literal["owner", "finance", "operations", "viewer"]
    # INVITED until the member has signed in.
    state: Literal["INVITED", "ACTIVE", "REMOVED"]
    # Who the member is there: no other account of the provider signs in as the member. Never written to events.
    subject: str
    # When the record was last changed.
    updatedAt: str


class MemberChange(TypedDict):
    # What the member may do from now on. The caller has to hold all scopes of the roles before and after.
    role: Literal["owner", "finance", "operations", "viewer"]


class MemberData(TypedDict):
    member: Member


class MemberInvitation(TypedDict):
    # Where links to sign in are sent. Never written to events.
    email: str
    # What the person is called. Never written to events.
    name: NotRequired[str | None]
    # What the member may do. The caller has to hold all scopes of the role.
    role: Literal["owner", "finance", "operations", "viewer"]


class MemberList(TypedDict):
    # A page of the members, newest first.
    members: list[Member]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


Metering = TypedDict("Metering", {
    # The log position that the response holds for: everything before it is counted. Null while nothing is loaded.
    "asOf": 'str | None',
    # The size of the buckets; null without any.
    "bucket": 'str | None',
    # Start of the requested window; null is open.
    "from": 'str | None',
    # `cursor` of the next page; null ends the list.
    "nextCursor": 'str | None',
    # The sums of this page.
    "rows": 'list[MeteringRow]',
    # The IANA time zone of the buckets, and of dates without a time; null if there are no buckets and none was
    # given.
    "timeZone": 'str | None',
    # The end of the requested window; null if it is open.
    "to": 'str | None',
    "totals": 'MeteringTotals',
})


class MeteringDecision(TypedDict):
    # What the quantity is of.
    basis: Literal["viewable", "gross", "audible", "delivered", "none"]
    # How far a video was played: telemetry's completionState, none if it says nothing.
    completion: Literal["none", "started", "first_quartile", "midpoint", "third_quartile", "complete"]
    # A decimal: how many impressions the delivery makes. 0 if it is not billed, else the row's multiplier, or 1.
    impressions: str
    # Whether it is billed.
    metered: bool
    # What is billed, in milliseconds.
    quantityMs: int
    # METERED, or the first of reasons.
    reason: str
    # Every reason for which the delivery is not billed.
    reasons: list[str]


class MeteringRow(TypedDict):
    # The legal basis that it rests on.
    basisId: str
    # Start of the bucket, with the zone's offset; absent without buckets.
    bucket: NotRequired[str]
    # With by=campaign alone: a campaign that the right's scope lists; null if it lists none.
    campaignId: NotRequired[str | None]
    # Decimal: the sum of the multipliers of metered receipts; a receipt without one counts 1.
    impressions: str
    # The tier at which the quantity is metered.
    meteringBasis: Literal["viewable", "gross", "audible", "delivered", "none"]
    # What is billed, in milliseconds.
    quantityMs: int
    # METERED, why it was suppressed, or DUPLICATE.
    reason: str
    # How many receipts there are.
    receipts: int
    # The right's id.
    rightId: str
    # With by=anchor alone.
    spatialAnchorId: NotRequired[str]
    # With by=placement alone; null for receipts without one.
    spatialPlacementId: NotRequired[str | None]
    # The medium, whose rules apply.
    substrate: Literal["DOOH", "CTV", "MOBILE", "STREAMING", "AUDIO", "MESSAGING", "GAMING", "GLASSES", "AR_CONTACTS", "HUD", "VOLUMETRIC", "HOLOGRAM", "WEARABLES", "AMBIENT", "NEURAL", "AUTOMOTIVE", "SMART_HOME", "ROBOTICS", "DRONE", "SATELLITE", "AVIATION", "MARITIME", "SOCIAL_FEED", "ANY"]


class MeteringTotals(TypedDict):
    # Deliveries that repeat an earlier one; they are not billed.
    duplicates: int
    # Decimal: the sum over all rows.
    impressions: str
    # What is billed.
    metered: int
    # What is billed, in milliseconds.
    quantityMs: int
    # How many receipts there are.
    receipts: int
    # What is not billed, by reason.
    suppressed: int


class MonthDue(TypedDict):
    # The calendar month, in the rule's time zone.
    month: str
    # Decimal: the amount that a correction would have; 0 for none.
    now: str
    # Why the rule adjusts the month.
    reason: Literal["TIER", "MINIMUM", "CAP"]
    # The rule.
    ruleId: str
    # Decimal: the amount that the statement has; 0 for none.
    stated: str
    # The rule's IANA time zone.
    timeZone: str


class MovedRight(TypedDict):
    propagation: Propagation
    right: Right


class NewApiKey(TypedDict):
    # When the key expires; not later than the calling key, whose expiry is the default.
    expiresAt: NotRequired[str | None]
    # What the key is for.
    label: str
    # Scopes that the calling key holds as well; every scope but the wildcard when absent.
    scopes: NotRequired[list[Literal["rights:read", "rights:write", "offers:read", "offers:write", "challenges:read", "challenges:write", "delivery:write", "audit:read", "proof:write", "metering:read", "settlement:read", "settlement:write", "webhooks:read", "webhooks:write", "disputes:read", "disputes:write", "keys:write", "*"]]]


class NewBasis(TypedDict):
    # SHA-256 of the document, base64url.
    contentHash: NotRequired[str | None]
    # Absent: since ever.
    effectiveFrom: NotRequired[str | None]
    # Exclusive; absent: open.
    effectiveUntil: NotRequired[str | None]
    # The tenant's organisation when absent.
    holderOrgId: NotRequired[str | None]
    # Where the basis applies, as the caller spells it.
    jurisdiction: NotRequired[str | None]
    # What kind of basis it is.
    kind: Literal["LICENSE", "CONSENT", "CONTRACT", "STATUTE", "LEGITIMATE_INTEREST"]
    # Where to read about it.
    reference: NotRequired[str | None]
    # Its title, for people.
    title: str


class NewBeacon(TypedDict):
    # Its end, at most 90 days ahead. It ends with the calling API key as well.
    expiresAt: str
    # How many receipts each node issues within any hour; more calls are passed over.
    maxReceiptsPerHour: int
    # The right, ACTIVE now and at each call.
    rightId: str
    # Where it is shown.
    spatialAnchorId: str


class NewChallenge(TypedDict):
    # The organisation that challenges it.
    challengerOrgId: str
    # Kept in the audit log permanently: no place for personal data.
    reason: str
    # The right to challenge.
    rightId: str


class NewCounterparty(TypedDict):
    # Its postal address on papers, in lines. Never written to events; removed when a person whom it names is
    # erased.
    address: NotRequired[str | None]
    # The currency of its payments: a code of ISO 4217.
    currency: str
    # Where it gets papers. Never written to events; removed when a person whom it names is erased.
    email: NotRequired[str | None]
    # Its role.
    kind: Literal["RIGHTS_HOLDER", "PUBLISHER", "PLATFORM", "AGENCY", "OTHER"]
    # Its name on papers; absent: name. Never written to events; removed when a person whom it names is erased.
    legalName: NotRequired[str | None]
    # A business name or a pseudonym. Kept in the audit log permanently: no place for personal data.
    name: str
    # The counterparty's organisation in this service, if it has one.
    orgId: NotRequired[str | None]
    # How many days after the issue of a paper its amount is due; absent: as many as the issuer's.
    paymentDays: NotRequired[int | None]
    # The payment destination, as your payment system names it. Never written to events; removed when a person whom
    # it names is erased.
    payoutRef: NotRequired[str | None]
    # Whether the recipient of its services owes the tax instead; papers say so. taxBps is 0 then.
    reverseCharge: NotRequired[bool | None]
    # The tax on what it gets, in hundredths of a per cent: 1900 is 19 %.
    taxBps: NotRequired[int | None]
    # Its tax number on papers. Never written to events; removed when a person whom it names is erased.
    taxId: NotRequired[str | None]


class NewDSARJob(TypedDict):
    # Requires format CSV: each file begins with a byte order mark, as spreadsheets need it to read UTF-8.
    bom: NotRequired[bool | None]
    # JSON, CSV, NDJSON or PARQUET; anything else is JSON.
    format: NotRequired[str | None]
    # Why, for the audit trail. In the private part of events only.
    requestNotes: NotRequired[str | None]
    # The requester; the key's developer when absent. In the private part of events only.
    requestedBy: NotRequired[str | None]
    # What is exported.
    scope: NewDSARScope


class NewDSARScope(TypedDict):
    # For TENANT_SLICE: only data about rights whose scope lists one of these campaigns.
    campaignIds: NotRequired[list[str]]
    # Required for DATA_SUBJECT: the person, as deliveries name them.
    dataSubjectId: NotRequired[str | None]
    # The kind of export.
    kind: Literal["DATA_SUBJECT", "TENANT_FULL", "TENANT_SLICE"]
    # For TENANT_SLICE: only data about these substrates. ANY selects all.
    substrates: NotRequired[list[Literal["DOOH", "CTV", "MOBILE", "STREAMING", "AUDIO", "MESSAGING", "GAMING", "GLASSES", "AR_CONTACTS", "HUD", "VOLUMETRIC", "HOLOGRAM", "WEARABLES", "AMBIENT", "NEURAL", "AUTOMOTIVE", "SMART_HOME", "ROBOTICS", "DRONE", "SATELLITE", "AVIATION", "MARITIME", "SOCIAL_FEED", "ANY"]]]
    # Required for TENANT_SLICE: end of the window, exclusive.
    windowEnd: NotRequired[str | None]
    # Required for TENANT_SLICE: start of the window. It selects deliveries by the time of their rendering,
    # everything else by the time of its event.
    windowStart: NotRequired[str | None]


class NewDispute(TypedDict):
    # Evidence to submit with it.
    evidence: NotRequired[list[NewDisputeEvidence] | None]
    # The organisation that raises the dispute. Default: the tenant's.
    raisedByOrgId: NotRequired[str | None]
    # Kept in the audit log permanently: no place for personal data.
    reason: str
    # The receipts to dispute, each once. Can't be combined with rightId and window.
    receiptIds: NotRequired[list[str] | None]
    # The right whose deliveries are disputed, without those on derived rights; requires window.
    rightId: NotRequired[str | None]
    # When the deliveries were rendered, at most 400 days; requires rightId.
    window: NotRequired[NewDisputeWindow]


class NewDisputeEvidence(TypedDict):
    # Where to find more: URLs or names of documents, each up to 256 bytes. Kept in the audit log permanently: no
    # place for personal data.
    references: NotRequired[list[str] | None]
    # The evidence, up to 4096 bytes. Kept in the audit log permanently: no place for personal data.
    text: str


class NewDisputeResponse(TypedDict):
    # The organisation that responds. Default: the tenant's.
    byOrgId: NotRequired[str | None]
    # The evidence to submit.
    evidence: list[NewDisputeEvidence]


NewDisputeWindow = TypedDict("NewDisputeWindow", {
    # Start of the window.
    "from": 'str',
    # End of the window, exclusive.
    "to": 'str',
})


class NewIssuer(TypedDict):
    # Its postal address on papers, in lines. Never written to events.
    address: NotRequired[str | None]
    # Where it is asked about papers. Never written to events.
    email: NotRequired[str | None]
    # Its name on papers. Never written to events.
    legalName: str
    # What each paper says besides, in lines: for example that it is a self-billed invoice. Never written to events.
    note: NotRequired[str | None]
    # How many days after its issue a paper is due, unless the counterparty's terms say otherwise.
    paymentDays: NotRequired[int | None]
    # Its tax number on papers. Never written to events.
    taxId: NotRequired[str | None]


class NewMapping(TypedDict):
    # Start of the window: plays at this moment or later resolve; it may be in the past.
    effectiveFrom: str
    # Exclusive; absent: until it is retired.
    effectiveUntil: NotRequired[str | None]
    # The vendor's type of id.
    idType: str
    # The right and anchor that it is mapped to.
    target: NewMappingTarget
    # The vendor that issued the id, as rows of batches name it.
    vendor: str
    # The id of a player or placement. Kept in the audit log permanently: it must not name a person.
    vendorId: str


class NewMappingTarget(TypedDict):
    # The right that its plays are deliveries on.
    rightId: str
    # The anchor where the content is shown.
    spatialAnchorId: str
    # The placement within the anchor, for rows that name none.
    spatialPlacementId: NotRequired[str | None]


class NewOffer(TypedDict):
    # When the right that accepting issues begins, within the right's window; it may lie in the past. Absent: when
    # it is accepted, or with the right if that begins later.
    effectiveFrom: NotRequired[str | None]
    # When the right that accepting issues ends, within the right's window; exclusive. Absent: with the right.
    effectiveUntil: NotRequired[str | None]
    # The first moment at which it can't be accepted any more; absent: in 7 days.
    expiresAt: NotRequired[str | None]
    # The organisation that proposes; the right's holder when absent.
    fromOrgId: NotRequired[str | None]
    # The right of which a part is requested.
    rightId: str
    # The scope of the right that accepting issues: an object of limits, or a string, which is kept as its
    # description. What it does not name is inherited from the right. Never wider than the right's.
    scope: NotRequired[dict[str, Any] | str | None]
    # Where the terms are; no place for personal data.
    termsRef: NotRequired[str | None]
    # The organisation that may accept; one of the two holds the right.
    toOrgId: str


class NewPayeeLink(TypedDict):
    # The payee whose part it shows.
    counterpartyId: str
    # When it stops to work: at most 400 days from now. Absent: in 30 days.
    expiresAt: NotRequired[str | None]
    # The statement, which has to be issued.
    statementId: str


class NewRight(TypedDict):
    # The legal basis that it rests on.
    basisId: str
    # A date or a time of ISO 8601, with its offset from UTC.
    effectiveFrom: str
    # Exclusive; absent: the end of the parent or the basis.
    effectiveUntil: NotRequired[str | None]
    # The tenant's organisation when absent.
    holderOrgId: NotRequired[str | None]
    # The right to derive this one from.
    parentRightId: NotRequired[str | None]
    # An object of limits: regions, maxSpeedMph, bvlos, channels and campaigns; besides them description, labels (an
    # object of strings) and keys of your own that begin with x-. A string is kept as the description. Optional for
    # a right that derives from another, which inherits what is not named, each label by itself.
    scope: NotRequired[dict[str, Any] | str]
    # The medium, whose rules apply.
    substrate: Literal["DOOH", "CTV", "MOBILE", "STREAMING", "AUDIO", "MESSAGING", "GAMING", "GLASSES", "AR_CONTACTS", "HUD", "VOLUMETRIC", "HOLOGRAM", "WEARABLES", "AMBIENT", "NEURAL", "AUTOMOTIVE", "SMART_HOME", "ROBOTICS", "DRONE", "SATELLITE", "AVIATION", "MARITIME", "SOCIAL_FEED", "ANY"]


class NewSettlementLabel(TypedDict):
    # Its name.
    name: str
    # Its value.
    value: str


class NewSettlementMatch(TypedDict):
    # Receipts on rights under this basis; absent: under any.
    basisId: NotRequired[str | None]
    # Receipts on rights whose scope lists this campaign; absent: any.
    campaign: NotRequired[str | None]
    # Receipts of videos that were played exactly this far; absent: however far.
    completion: NotRequired[str | None]
    # Receipts on rights whose scope has this label; absent: any.
    label: NotRequired[NewSettlementLabel]
    # Receipts metered at this tier; absent: at any.
    meteringBasis: NotRequired[str | None]
    # Receipts on this right; absent: on any.
    rightId: NotRequired[str | None]
    # Receipts on this substrate; absent or ANY: on any.
    substrate: NotRequired[str | None]


class NewSettlementRule(TypedDict):
    # Decimal with at most six fractional digits: the largest amount of a calendar month. Not applied to packs.
    cap: NotRequired[str | None]
    # A code of ISO 4217.
    currency: str
    # The rule rates receipts rendered at this moment or later; it may be in the past. Absent: now.
    effectiveFrom: NotRequired[str | None]
    # Exclusive; absent: until it is retired.
    effectiveUntil: NotRequired[str | None]
    # Which receipts the rule is for; absent: all.
    match: NotRequired[NewSettlementMatch]
    # Decimal with at most six fractional digits: the least amount of a calendar month in which the rule is in
    # force, whole. Not applied to packs.
    minimum: NotRequired[str | None]
    # Decimal price of one unit, with at most nine fractional digits; with tiers, that of the first units of a
    # month.
    price: str
    # If several rules fit a receipt, the one with the highest priority rates it.
    priority: NotRequired[int | None]
    # How the rule's amounts are divided: 10,000 basis points in total.
    shares: list[NewSettlementShare]
    # Prices for more units in a month, by rising volume; absent: there is one price. Not applied to packs.
    tiers: NotRequired[list[NewTier] | None]
    # GRADUATED: each tier's price is for the units above its volume, up to the next tier. VOLUME: the price of the
    # highest tier that is reached is for all units of the month. Absent: GRADUATED.
    tiersMode: NotRequired[str | None]
    # IANA time zone of the calendar months to which tiers, minimum and cap belong, and of dates without a time;
    # absent: the tenant's, or of a rule that is changed its own.
    timeZone: NotRequired[str | None]
    # What the price applies to: one metered receipt, millisecond, second or impression, or a thousand impressions.
    unit: Literal["EVENT", "MS", "SECOND", "IMPRESSION", "CPM"]


class NewSettlementShare(TypedDict):
    # Basis points: 10,000 are the whole.
    bps: int
    # An active counterparty that is paid in the rule's currency.
    counterpartyId: str


NewStatement = TypedDict("NewStatement", {
    # The counterparty whose shares to state; absent: all counterparties.
    "counterpartyId": 'NotRequired[str | None]',
    # A code of ISO 4217.
    "currency": 'str',
    # Start of the period, by renderedAt; without period.
    "from": 'NotRequired[str | None]',
    # A month, a week of ISO 8601 or a day of timeZone; absent: from and to.
    "period": 'NotRequired[str | None]',
    # IANA time zone of the period, and of dates without a time; absent: the tenant's.
    "timeZone": 'NotRequired[str | None]',
    # End of the period, exclusive; without period. A draft can be issued if it was made after the end.
    "to": 'NotRequired[str | None]',
})


class NewTier(TypedDict):
    # The price is for units above so many in the month.
    above: int
    # Decimal price of one unit, with at most nine fractional digits.
    price: str


class NewWebhook(TypedDict):
    # What it is for. Kept in the audit log permanently: no place for personal data.
    description: NotRequired[str | None]
    # Kinds of events such as offer.accepted, all kinds of a noun, such as right.*, or all kinds, *. x-event-kinds
    # in this document lists them with the scopes of which the calling key needs one. Only its full name selects
    # delivery.recorded, which is sent in batches.
    events: list[Literal["*", "basis.*", "basis.created", "beacon.*", "beacon.created", "challenge.*", "challenge.opened", "challenge.overturned", "challenge.upheld", "challenge.withdrawn", "counterparty.*", "counterparty.changed", "counterparty.created", "counterparty.deactivated", "delivery.*", "delivery.recorded", "dispute.*", "dispute.investigation_started", "dispute.opened", "dispute.resolved", "dispute.responded", "dsar.*", "dsar.cancelled", "dsar.collecting", "dsar.download_started", "dsar.downloaded", "dsar.expired", "dsar.failed", "dsar.packaging", "dsar.queued", "dsar.ready", "dsar.requested", "erasure.*", "erasure.completed", "events.*", "events.exported", "gate.*", "gate.refusals", "held_row.*", "held_row.expired", "issuer.*", "issuer.changed", "key.*", "key.created", "key.revoked", "key.rotated", "mapping.*", "mapping.created", "mapping.retired", "member.*", "member.bound", "member.changed", "member.invited", "member.joined", "member.removed", "offer.*", "offer.accepted", "offer.countered", "offer.expired", "offer.proposed", "offer.rejected", "offer.withdrawn", "pack.*", "pack.downloaded", "pack.sealed", "payable.*", "payable.issued", "payable.paid", "payee_link.*", "payee_link.created", "payee_link.revoked", "record.*", "record.released", "rejected_play.*", "rejected_play.dismissed", "right.*", "right.issued", "right.resumed", "right.revoked", "right.suspended", "settlement_rule.*", "settlement_rule.changed", "settlement_rule.created", "settlement_rule.retired", "statement.*", "statement.created", "statement.discarded", "statement.issued", "statement.paid", "statement.reopened", "statement.settled", "statement.voided", "subject.*", "subject.erased", "tenant.*", "tenant.created", "tenant.dropped", "webhook.*", "webhook.changed", "webhook.created", "webhook.deleted", "webhook.disabled", "webhook.paused", "webhook.recovered", "webhook.resent", "webhook.secret_rotated", "webhook.tested"]]
    # Where events are sent: https, without user info and fragment; http leads to a loopback address alone that the
    # operator allows by --webhook-allow. Kept in the audit log permanently: no place for secrets.
    url: str


class NewWebhookRecovery(TypedDict):
    # Count only.
    dryRun: NotRequired[bool | None]
    # Only events at this time or later.
    since: str
    # Exclusive; absent: until now.
    until: NotRequired[str | None]


class NodeState(TypedDict):
    # The revision that the node has applied.
    appliedRevision: int
    # It may hold a lease: it polled within the bound.
    live: bool
    # The node's id.
    nodeId: str


class Observation(TypedDict):
    # The caller's own tracing id.
    correlationId: NotRequired[str | None]
    # The person it was shown to, for export and erasure. Kept in the private part of the event, which is not
    # hashed.
    dataSubjectId: NotRequired[str | None]
    # More persons it was shown to, each found by export and erasure, and each erased alone. One who is named twice
    # counts once.
    dataSubjectIds: NotRequired[list[str] | None]
    # How long, in milliseconds.
    dwellMs: float
    # The ACTIVE right that permits the delivery.
    rightId: str
    # Where it was shown.
    spatialAnchorId: str
    # Placement within the anchor.
    spatialPlacementId: NotRequired[str | None]
    # What the device observed.
    telemetry: NotRequired[Telemetry]


class Offer(TypedDict):
    # The termsRef that was given with a counter-offer.
    counterTermsRef: str | None
    # The counter-offer that replaced it.
    counteredBy: str | None
    # When the record was made.
    createdAt: str
    # The right that accepting it issued.
    derivedRightId: str | None
    # When the right that accepting it issues begins. Null while it is to begin when the offer is accepted, or with
    # the right if that begins later.
    effectiveFrom: str | None
    # When the right that accepting it issues ends; exclusive, null is open.
    effectiveUntil: str | None
    # The first moment at which it can't be accepted any more.
    expiresAt: str
    # The organisation that proposed it.
    fromOrgId: str
    # The record's id.
    id: str
    # Grows with every change.
    revision: int
    # The right of which a part is requested.
    rightId: str
    # The scope of the right that accepting it issues, with what it inherits.
    scope: dict[str, Any]
    # The record's own state.
    state: Literal["PROPOSED", "COUNTERED", "WITHDRAWN", "REJECTED", "ACCEPTED", "EXPIRED"]
    # The reason given with a withdrawal or rejection.
    stateReason: str | None
    # Where the terms are; counter_of:<id> for a counter-offer.
    termsRef: str | None
    # The organisation that may accept, counter or reject it.
    toOrgId: str
    # When the record was last changed.
    updatedAt: str


class OfferData(TypedDict):
    offer: Offer


class OfferList(TypedDict):
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The offers of this page.
    offers: list[Offer]


class Payable(TypedDict):
    # Decimal: what the exact amounts of all that the payee got so far in the currency are more than their nets. The
    # next payable takes it up.
    carried: str
    # The payee's first number of the chain, which it corrects; null if this is that.
    corrects: str | None
    # The payee.
    counterpartyId: str
    # When the record was made.
    createdAt: str
    # A code of ISO 4217.
    currency: str
    # The day on which it is due.
    dueOn: str
    # Decimal: the payee's part of the statement, or of the difference that a correction makes.
    exact: str
    # The first statement of its chain: the same, or the one that is corrected or voided.
    firstStatementId: str
    # Decimal: net and tax, which is due. Below zero for a credit.
    gross: str
    # The record's id.
    id: str
    # The day of its issue, in the tenant's time zone.
    issuedOn: str
    issuer: PayableParty
    # A credit note is one whose net is below zero; a debit note is any other of a correction or a void.
    kind: Literal["STATEMENT", "DEBIT_NOTE", "CREDIT_NOTE"]
    # Decimal, in the currency's minor unit: what exact adds to the rounded sum so far.
    net: str
    # Its number: unbroken a tenant and year.
    number: str
    # Decimal: the sum of payments.
    paidAmount: str
    # What was paid or set off, in the order of its recording.
    payments: list[PayablePayment]
    recipient: PayableParty
    # Whether the issuer, who receives the payee's services, owes the tax.
    reverseCharge: bool
    # Grows with every change.
    revision: int
    # Its place among the tenant's, from 1.
    sequence: int
    # The record's own state.
    state: Literal["DUE", "PAID"]
    # The statement that states it.
    statementId: str
    # Decimal: the tax on net.
    tax: str
    # The tax rate, in hundredths of a per cent.
    taxBps: int
    # When the record was last changed.
    updatedAt: str


class PayableData(TypedDict):
    payable: Payable


class PayableList(TypedDict):
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The payables of this page.
    payables: list[Payable]


class PayableParty(TypedDict):
    # Never written to events.
    address: str | None
    # Never written to events.
    email: str | None
    # Never written to events.
    legalName: str | None
    # What the issuer says on each paper. Never written to events.
    note: str | None
    # Never written to events.
    taxId: str | None


class PayablePayment(TypedDict):
    # Decimal; below zero for what was taken back, of a credit for what the payee paid.
    amount: str
    # The day of the payment.
    date: str
    # The payment's reference, or the number of the payable that it was set off against.
    reference: str
    # Whether it was set off, so no money moved.
    setOff: bool


class PayeeLink(TypedDict):
    # The payee whose part it shows.
    counterpartyId: str
    # When the record was made.
    createdAt: str
    # The API key or the member that made it.
    createdBy: str
    # When it stops to work.
    expiresAt: str
    # The record's id.
    id: str
    # Grows with every change.
    revision: int
    # When it was revoked; null until then.
    revokedAt: str | None
    # ACTIVE links work until expiresAt.
    state: Literal["ACTIVE", "REVOKED"]
    # The statement that it shows a part of.
    statementId: str
    # When the record was last changed.
    updatedAt: str


class PayeeLinkData(TypedDict):
    link: PayeeLink


class PayeeLinkList(TypedDict):
    # The links of this page.
    links: list[PayeeLink]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


class Payment(TypedDict):
    # Decimal: a part of what is open, of a credit below zero; of the other sign, what is taken back of the payments
    # that were recorded. Absent: all that is open.
    amount: NotRequired[str | None]
    # The payee who was paid. Absent: all of the statement, which with an amount can be only one.
    counterpartyId: NotRequired[str | None]
    # The day of the payment, today or before, at most a year before the statement was issued; absent: today, in the
    # tenant's time zone.
    date: NotRequired[str | None]
    # The payment's reference. Kept in the audit log permanently: no place for personal data.
    reference: str


class Payout(TypedDict):
    # Decimal: what is open.
    amount: str
    # The payee.
    counterpartyId: str
    # A code of ISO 4217.
    currency: str
    # The day on which it is due.
    dueOn: str
    # The payable's number, for the payment.
    number: str
    # The payable.
    payableId: str
    # The payee's legal name, or its name.
    payee: str
    # The payment destination that the counterparty has now.
    payoutRef: str | None
    # The statement that states it.
    statementId: str


class PayoutList(TypedDict):
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The longest due first.
    payouts: list[Payout]


class PendingEvents(TypedDict):
    # How many there are.
    count: int
    # The node whose spool alone has the events: only a later call can seal them.
    nodeId: NotRequired[str]
    # warehouse, instead of a node: counts the records of the log before upTo, of all tenants, that the warehouse
    # has not loaded yet.
    source: NotRequired[Literal["warehouse"]]


class PricedDispute(TypedDict):
    # When the record was made.
    createdAt: str
    # The submitted evidence, oldest first.
    evidence: list[DisputeEvidence]
    # What its deliveries are worth alone, by the current rules, by currency, without minimums and caps, so it may
    # differ in the sixth fractional digit from what they add to lines with others, which are rounded once; null
    # while it can't be computed, for example because the warehouse is unavailable. A delivery under several
    # disputes counts in each. Once it is RESOLVED: the amount that UPHELD excludes permanently; empty if it was
    # REJECTED.
    heldAmount: list[DisputedAmount] | None
    # The record's id.
    id: str
    # How it was resolved; null until it is. UPHELD excludes the deliveries from settlement permanently.
    outcome: str | None
    # With plays=true: the disputed receipts that the warehouse has, in the order of receiptIds. Absent for a
    # dispute about a right and a window, whose receipts GET /v1/receipts lists.
    plays: NotRequired[list[DisputedPlay]]
    # The organisation that raised the dispute.
    raisedByOrgId: str
    # The reason that it gave.
    reason: str
    # The disputed receipts; empty if the dispute is about a right and a window.
    receiptIds: list[str]
    # The text given with the resolution.
    resolution: str | None
    # Grows with every change.
    revision: int
    # The right whose deliveries are disputed; null if the dispute is about receipts.
    rightId: str | None
    # The record's own state.
    state: Literal["OPEN", "INVESTIGATING", "RESPONDED", "RESOLVED"]
    # When the record was last changed.
    updatedAt: str
    # When the deliveries were rendered; null if the dispute is about receipts.
    window: DisputeWindow


class PricedDisputeData(TypedDict):
    dispute: PricedDispute


class ProofPack(TypedDict):
    # Size of the bundle.
    bytes: int
    # Entries of this pack.
    count: int
    # When the record was made.
    createdAt: str
    # Deliveries of this pack that repeat an earlier one and are not billed; the header lists them as {leaf, first}.
    duplicates: int
    # Leaf index of the first entry.
    firstIndex: int
    # The record's id.
    id: str
    # Receipts of this pack that a settlement rule rates; the header has the amounts.
    rated: int
    # Grows with every change.
    revision: int
    # Root of the tenant's Merkle log with this pack, base64url.
    rootHash: str
    # When it was sealed.
    sealedAt: str
    # SHA-256 of the bundle, base64url.
    sha256: str
    # The key that signed it, by its id in the directory.
    signingKeyId: str
    # Leaves of the tenant's log with this pack.
    treeSize: int
    # Metered receipts of this pack that no settlement rule rates; 0 while the tenant has no rules.
    unrated: int
    # When the record was last changed.
    updatedAt: str


class ProofPackData(TypedDict):
    # The signed header, verbatim.
    header: dict[str, Any]
    # The key directory at the time of sealing, from the header.
    keys: dict[str, Any]
    summary: ProofPack


class ProofPackList(TypedDict):
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The proof packs of this page.
    packs: list[ProofPack]


class Propagation(TypedDict):
    # Every live node has applied it.
    applied: bool
    # The state of each node.
    nodes: list[NodeState]
    # The revision to be applied.
    revision: int


ProveConsistencyQuery = TypedDict("ProveConsistencyQuery", {
    # Id of the earlier pack; may be the same.
    "from": 'str',
})


class ProveReceiptQuery(TypedDict):
    # pack: the checkpoint of the pack that holds the receipt, which is the oldest one possible; if that pack's key
    # is revoked, the checkpoint of the first later pack whose key is not. latest: the checkpoint of the tenant's
    # newest pack.
    checkpoint: NotRequired[Literal["pack", "latest"]]


class Provenance(TypedDict):
    basis: Basis
    # Rights derived directly from it, newest first, 500 at most.
    derived: list[Right]
    # Root right first, the right itself last.
    lineage: list[Right]


class Reason(TypedDict):
    # Kept permanently in the audit log: must not contain personal data.
    reason: NotRequired[str | None]


class Receipt(TypedDict):
    # The caller's own tracing id.
    correlationId: str | None
    # How long it was shown, in milliseconds.
    dwellMs: float
    # When it was signed.
    issuedAt: str
    # 128 random bits, base64url.
    nonce: str
    # The receipt's id.
    receiptId: str
    # When the observation arrived; of a row of a batch, when it was played.
    renderedAt: str
    # Where it was shown.
    spatialAnchorId: str
    # Placement within the anchor.
    spatialPlacementId: str | None
    # The version of the form.
    version: Literal["1"]
    # edge:<node>:<SHA-256 of the event without receipt and signature>: binds it to tenant, right, rules and
    # metering.
    witness: str | None


class ReceiptList(TypedDict):
    # The log position up to which receipts were searched; null while nothing is loaded.
    asOf: str | None
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The receipts of this page.
    receipts: list[FoundReceipt]


class Recomputed(TypedDict):
    # Decimal.
    heldAmount: str
    # How many receipts are behind its lines.
    receipts: int
    # Decimal.
    total: str


ReconcileSettlementQuery = TypedDict("ReconcileSettlementQuery", {
    # The beginning of the period, inclusive: a date or a time, as in bodies. Open when absent.
    "from": 'NotRequired[str]',
    # The end of the period, exclusive: a date or a time, as in bodies. Open when absent.
    "to": 'NotRequired[str]',
})


class ReconciledDifference(TypedDict):
    # What differs.
    code: Literal["PACK_DIFFERS", "STATEMENT_DIFFERS"]
    # The id of the pack or the statement.
    id: str
    # A sentence that says what does not agree.
    message: str


class ReconciledPacks(TypedDict):
    # How many packs.
    count: int
    # Null if there is no pack.
    firstPackId: str | None
    # Null if there is no pack.
    lastPackId: str | None
    # The warehouse's current counts for the same part of the log.
    loaded: Counted
    # The counts in the packs' headers, computed from what nodes have signed.
    sealed: Counted


ReconciledStatement = TypedDict("ReconciledStatement", {
    # The statement that it corrects; null for a first statement.
    "corrects": 'str | None',
    # The counterparty whose shares it states; null: all counterparties.
    "counterpartyId": 'str | None',
    # A code of ISO 4217.
    "currency": 'str',
    # Start of its period.
    "from": 'str',
    # Metered receipts of its period after its asOf. They are in none of its lines; a correction states them.
    "late": 'int',
    # What a correction of it would change of the months that end in its period, by the current rules: for example
    # because an earlier part of a month was corrected. Empty for a statement that was corrected since.
    "months": 'list[MonthDue]',
    # The same sums recomputed from the warehouse, by the statement's own rules and disputes; null if the database
    # lacks the data for that, or if its record or text differs from what was signed.
    "recomputed": 'Recomputed',
    # The record's own state.
    "state": 'Literal["ISSUED", "SETTLED"]',
    # The sums that it states.
    "stated": 'Stated',
    # The statement.
    "statementId": 'str',
    # End of its period, exclusive.
    "to": 'str',
})


Reconciliation = TypedDict("Reconciliation", {
    # What does not agree; empty if everything agrees. At most 20 packs are listed.
    "differences": 'list[ReconciledDifference]',
    # Start of the requested period; null is open.
    "from": 'str | None',
    # The packs that were sealed in the period, in the hour before it, and up to the newest pack that its statements
    # state. They contain everything that is stated.
    "packs": 'ReconciledPacks',
    # The statements that are ISSUED or SETTLED and whose period overlaps with this one, sorted by their ends, each
    # followed by its corrections.
    "statements": 'list[ReconciledStatement]',
    # The end of the requested window; null if it is open.
    "to": 'str | None',
    # What an issued statement lacks: receipts of times that it covers, in the currency of the rule that rates them,
    # and for a counterparty that the rule pays. They came late, or their rule did. A correction of that statement
    # states them.
    "unstated": 'list[SettlementLine]',
})


class RefusalRow(TypedDict):
    # Start of the bucket, with the zone's offset.
    bucket: str | None
    # How many deliveries were refused.
    refusals: int
    # Null where a node had too many counts to separate them by right.
    rightId: str | None
    # A rule of the gate; beacon-prefetch, beacon-macro, beacon-malformed, beacon-expired, beacon-key and beacon-
    # limited count beacon calls that were not recorded.
    rule: str


class RefusalTotals(TypedDict):
    # How many deliveries were refused.
    refusals: int


Refusals = TypedDict("Refusals", {
    # The log position that the response holds for: everything before it is counted. Null while nothing is loaded.
    "asOf": 'str | None',
    # The size of the buckets; null without any.
    "bucket": 'str | None',
    # Start of the requested window; null is open.
    "from": 'str | None',
    # `cursor` of the next page; null ends the list.
    "nextCursor": 'str | None',
    # The sums of this page.
    "rows": 'list[RefusalRow]',
    # The IANA time zone of the buckets, and of dates without a time; null if there are no buckets and none was
    # given.
    "timeZone": 'str | None',
    # The end of the requested window; null if it is open.
    "to": 'str | None',
    "totals": 'RefusalTotals',
    # Misspelt fields of telemetry: the gate did not see their values. The newest 1000, on the first page, and none
    # if a right or a rule is asked for.
    "unrecognised": 'list[UnrecognisedRow]',
})


class RefusedRequests(TypedDict):
    # What to do about it, for people; it may change.
    advice: str
    # What is known besides: the reason of a 503, the scopes that the key lacks, the first rule of the gate that is
    # broken, or the field that is missing or wrong. Empty for nothing.
    cause: str
    # The error of the responses; empty in a line without an operation.
    code: str
    # How many there were since firstAt. It begins again once firstAt is more than a day ago.
    count: int
    # When the first was refused, to the minute.
    firstAt: str
    # The API key that they have shown; empty in the line for all that is in no other.
    keyId: str
    # The label of the key.
    keyLabel: str
    # When the last was refused, to the minute: at most 24 hours ago.
    lastAt: str
    # The id of the operation in this document; or broadsign, of a player; forwarded, which a node refused before
    # control has seen it; unmatched, of an unknown path or method. Empty in a line for what is in no other.
    operation: str
    # The x-request-id of the last.
    requestId: str
    # The HTTP status of the responses; 0 in a line without an operation.
    status: int


class RefusedRequestsList(TypedDict):
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # A page of the lines, the last first.
    requests: list[RefusedRequests]


class RejectedPlay(TypedDict):
    # When the record was made.
    createdAt: str
    # Why it was rejected when it came first.
    error: RowError
    # The format of the player's document.
    format: str
    # The record's id.
    id: str
    # The API key with which it was sent.
    keyId: str
    # Where row is null: what the player said of it, in its own words, without what the format does not use; null if
    # that could not be read.
    play: Any
    # The play as a row of POST /v1/delivery/ingest-batch; null if it could not be read as one.
    row: dict[str, Any] | None


class RejectedPlayList(TypedDict):
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The plays of this page.
    rejected: list[RejectedPlay]


class ResolvedChallenge(TypedDict):
    challenge: Challenge
    propagation: Propagation
    right: Right


class RetiredMapping(TypedDict):
    mapping: Mapping
    propagation: Propagation


class RevokedApiKey(TypedDict):
    key: ApiKey
    # Keys in force that the key created, or that what it made created, newest first, at most 100: revoke them too
    # unless they are yours.
    madeKeys: NotRequired[list[MadeApiKey]]
    # Members whom the key invited, or whom what it made invited, newest first, at most 100: remove them unless you
    # know them.
    madeMembers: NotRequired[list[MadeMember]]
    # Links in force by which payees read their parts of statements, and that the key or what it made has made,
    # newest first, at most 100: revoke them unless they are yours.
    madePayeeLinks: NotRequired[list[MadePayeeLink]]
    # Whether there are more than these: revoke some, and repeat the request.
    moreMadeKeys: NotRequired[bool]
    # Whether there are more than these: remove some, and repeat the request.
    moreMadeMembers: NotRequired[bool]
    # Whether there are more than these: revoke some, and repeat the request.
    moreMadePayeeLinks: NotRequired[bool]
    propagation: Propagation
    # Keys that replaced the key in rotations, and still work: revoke them too unless they are yours.
    successors: NotRequired[list[str]]
    # Members whom the key had invited and who had not signed in yet: they were removed with it.
    withdrawnInvitations: NotRequired[list[str]]


class Right(TypedDict):
    # The legal basis that it rests on.
    basisId: str
    # What the effective state comes from, if not from this right alone: the ancestor that stops it, or the ancestor
    # or basis that has not begun yet or has ended with it.
    blockedBy: str | None
    # SHA-256 of the accepted offer that it comes from, base64url; null if it comes from none.
    contentHash: str | None
    # When the record was made.
    createdAt: str
    # The beginning of its validity.
    effectiveFrom: str
    # Whether the right is in force now: the most severe of its own state, its ancestors' states, and NOT_BEGUN
    # before effectiveFrom or EXPIRED from effectiveUntil on. They are listed from least to most severe.
    effectiveState: Literal["ACTIVE", "NOT_BEGUN", "SUSPENDED", "EXPIRED", "REVOKED"]
    # Exclusive; null is open.
    effectiveUntil: str | None
    # The organisation that holds it.
    holderOrgId: str
    # The record's id.
    id: str
    # The right that this one was derived from.
    parentRightId: str | None
    # Grows with every change.
    revision: int
    # Limits: regions, maxSpeedMph, bvlos, channels and campaigns, with what was inherited from the parent; labels,
    # which are inherited too; description, and the caller's own keys, which begin with x-.
    scope: dict[str, Any]
    # The record's own state.
    state: Literal["ACTIVE", "SUSPENDED", "REVOKED"]
    # The reason given with the last suspension or revocation.
    stateReason: str | None
    # The medium, whose rules apply.
    substrate: Literal["DOOH", "CTV", "MOBILE", "STREAMING", "AUDIO", "MESSAGING", "GAMING", "GLASSES", "AR_CONTACTS", "HUD", "VOLUMETRIC", "HOLOGRAM", "WEARABLES", "AMBIENT", "NEURAL", "AUTOMOTIVE", "SMART_HOME", "ROBOTICS", "DRONE", "SATELLITE", "AVIATION", "MARITIME", "SOCIAL_FEED", "ANY"]
    # When the record was last changed.
    updatedAt: str


class RightData(TypedDict):
    right: Right


class RightList(TypedDict):
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The rights of this page.
    rights: list[Right]


class RightPropagation(TypedDict):
    propagation: Propagation
    # The right's id.
    rightId: str


class RotatedApiKey(TypedDict):
    # The new key itself; it can't be shown again.
    apiKey: str
    key: ApiKey
    propagation: Propagation
    # The old key, with its end.
    replaced: ApiKey


class RotatedWebhook(TypedDict):
    # Until when the previous secret signs as well.
    previousUntil: str
    # The new secret; it can't be shown again.
    secret: str
    # The public keys with which receivers verify v1a signatures, the current one first; a rotation of the secret
    # does not change them.
    verifyingKeys: list[str]
    webhook: Webhook


class Row(TypedDict):
    # The caller's own tracing id.
    correlationId: NotRequired[str | None]
    # The person it was shown to, for export and erasure. Kept in the private part of the event, which is not
    # hashed.
    dataSubjectId: NotRequired[str | None]
    # More persons it was shown to, as in POST /v1/delivery.
    dataSubjectIds: NotRequired[list[str] | None]
    # How long, in milliseconds.
    dwellMs: float
    # Which of the vendor's kinds of ids vendorId is.
    idType: NotRequired[str | None]
    # Impressions that the play counts as, as a number or a decimal string: more than 0, at most 10000, up to four
    # decimals.
    multiplier: NotRequired[float | str | None]
    # When it was shown, with its zone: up to 30 days ago, at most 5 minutes ahead.
    playedAt: str
    # The right: in force at playedAt, and not revoked since. While it is suspended the row is held.
    rightId: NotRequired[str | None]
    # The vendor's own id of the play, if it gives each play one and never two: the row's identity, with vendor.
    rowId: NotRequired[str | None]
    # Where it was shown.
    spatialAnchorId: NotRequired[str | None]
    # Placement within the anchor.
    spatialPlacementId: NotRequired[str | None]
    # What the device observed.
    telemetry: NotRequired[Telemetry]
    # Whose ids vendorId and rowId are.
    vendor: NotRequired[str | None]
    # The id that a mapping resolves to a right and an anchor; in place of both.
    vendorId: NotRequired[str | None]


class RowCounts(TypedDict):
    # Rows whose receipt is new.
    accepted: int
    # Rows that were delivered before, or stand in the batch twice.
    duplicate: int
    # Rows that are held until their right is resumed.
    held: int
    # Rows without a receipt.
    rejected: int
    # Rows that are held until a mapping knows their vendor's id.
    unmapped: int


class RowError(TypedDict):
    # What went wrong, of the list of errors.
    error: str
    # The first field at fault.
    field: NotRequired[str]
    # The version of the rules.
    gate: NotRequired[str]
    # For people; it may change.
    message: str
    # Of INTERNAL_ERROR: why the service can't decide now; send the row again. RIGHT_NOT_IN_FORCE with
    # STATE_CONFLICT: the right was not in force when this was played, which is final.
    reason: NotRequired[Literal["RIGHTS_STALE", "LOG_UNAVAILABLE", "NO_SIGNING_KEY", "DELEGATION_ENDED", "OVERLOADED", "DRAINING", "CONTROL_UNAVAILABLE", "WAREHOUSE_BEHIND", "QUARANTINED", "STORAGE_FULL", "DATABASE_UNAVAILABLE", "DATABASE_BUSY", "ENGINE_UNAVAILABLE", "RIGHT_NOT_IN_FORCE"]]
    # The substrate whose rules were applied.
    substrate: NotRequired[Literal["DOOH", "CTV", "MOBILE", "STREAMING", "AUDIO", "MESSAGING", "GAMING", "GLASSES", "AR_CONTACTS", "HUD", "VOLUMETRIC", "HOLOGRAM", "WEARABLES", "AMBIENT", "NEURAL", "AUTOMOTIVE", "SMART_HOME", "ROBOTICS", "DRONE", "SATELLITE", "AVIATION", "MARITIME", "SOCIAL_FEED", "ANY"]]
    # The faults, at most the first 20.
    validationErrors: NotRequired[list[ValidationError]]
    # Every rule that refused the delivery.
    violations: NotRequired[Any]


class RowResult(TypedDict):
    # Of a row that is rejected. INTERNAL_ERROR may be sent again.
    error: NotRequired[RowError]
    # Of a row that is unmapped or held, or equal to one.
    heldId: NotRequired[str]
    # The row's place in the body, from 0.
    index: int
    metering: NotRequired[MeteringDecision]
    # Of a row whose status is held: what it waits for.
    reason: NotRequired[Literal["RIGHT_SUSPENDED"]]
    receipt: NotRequired[Receipt]
    # Of a row that has one: the caller's, or what its format makes it of.
    rowId: NotRequired[str]
    signature: NotRequired[Signature]
    # accepted: the receipt is durable. duplicate: the play was delivered before, and the receipt is that of then,
    # where this node has it; or the row is equal to an unmapped or held one of the batch, and has its heldId.
    # rejected: no receipt was signed. unmapped: no mapping knows the vendor's id at the time of the play; the row
    # is held until one does. held: the right is suspended, and was not when this was played; the row is held until
    # the right is resumed.
    status: Literal["accepted", "duplicate", "rejected", "unmapped", "held"]
    # The substrate whose rules were applied.
    substrate: NotRequired[Literal["DOOH", "CTV", "MOBILE", "STREAMING", "AUDIO", "MESSAGING", "GAMING", "GLASSES", "AR_CONTACTS", "HUD", "VOLUMETRIC", "HOLOGRAM", "WEARABLES", "AMBIENT", "NEURAL", "AUTOMOTIVE", "SMART_HOME", "ROBOTICS", "DRONE", "SATELLITE", "AVIATION", "MARITIME", "SOCIAL_FEED", "ANY"]]


class SealRequest(TypedDict):
    # The upTo of the previous response; absent: the end of the log now.
    upTo: NotRequired[str | None]


class SealedLeaf(TypedDict):
    # Leaf index in the tenant's Merkle log, from 0.
    leafIndex: int
    # The proof pack's id.
    packId: str


class SealedPacks(TypedDict):
    # Something before upTo is in no pack yet: call again with this upTo.
    more: bool
    # The header of the newest pack; null while the tenant has none.
    pack: dict[str, Any] | None
    # Headers of the packs sealed since the call began, oldest first, or of the last pack alone if nothing was new.
    packs: list[dict[str, Any]]
    # Acknowledged events that are in no pack yet.
    pending: list[PendingEvents]
    # Every event that was acknowledged into the log before the first call is before this position. Packs may go
    # beyond it.
    upTo: str


Settlement = TypedDict("Settlement", {
    # The log position before which receipts are counted. Null while nothing is loaded.
    "asOf": 'str | None',
    # Start of the requested window; null is open.
    "from": 'str | None',
    # The lines of this page.
    "lines": 'list[SettlementLine]',
    # `cursor` of the next page; null ends the list.
    "nextCursor": 'str | None',
    # The end of the requested window; null if it is open.
    "to": 'str | None',
    # Totals by currency, over all pages.
    "totals": 'list[SettlementTotal]',
    # Metered receipts that no rule rates. On the first page only.
    "unrated": 'list[SettlementUnrated]',
})


class SettlementAdjustment(TypedDict):
    # Decimal; below zero if it takes off.
    amount: str
    # The calendar month, in the rule's time zone.
    month: str
    # Why.
    reason: Literal["TIER", "MINIMUM", "CAP"]
    # The rule's IANA time zone.
    timeZone: str


class SettlementLabel(TypedDict):
    # Its name.
    name: str
    # Its value.
    value: str


class SettlementLine(TypedDict):
    # Decimal: the price times the counted units, rounded once to six fractional digits, half to even.
    amount: str
    # With by=campaign: a campaign that the right's scope lists; null if it lists none.
    campaignId: NotRequired[str | None]
    # A code of ISO 4217.
    currency: str
    # Decimal: the metered impressions.
    impressions: str
    # The tier at which they are metered.
    meteringBasis: str
    # Decimal: the price of one unit.
    price: str
    # What is billed, in milliseconds.
    quantityMs: int
    # How many receipts there are.
    receipts: int
    # The right's id.
    rightId: str
    # The rule that rates them.
    ruleId: str
    # How the amount is divided. The shares sum to the amount.
    shares: list[SettlementLineShare]
    # What the price applies to.
    unit: Literal["EVENT", "IMPRESSION", "CPM", "MS", "SECOND"]


class SettlementLineShare(TypedDict):
    # Decimal.
    amount: str
    # Basis points: 10,000 are the whole.
    bps: int
    # The counterparty.
    counterpartyId: str


class SettlementMatch(TypedDict):
    # Receipts on rights under this basis.
    basisId: str | None
    # Receipts on rights whose scope lists this campaign.
    campaign: str | None
    # Receipts of videos that were played exactly this far.
    completion: str | None
    # Receipts on rights whose scope has this label.
    label: SettlementLabel
    # Receipts metered at this tier.
    meteringBasis: str | None
    # Receipts on this right.
    rightId: str | None
    # Receipts on this substrate.
    substrate: str | None


class SettlementPayee(TypedDict):
    # Decimal: the sum of its shares.
    amount: str
    # The counterparty.
    counterpartyId: str
    # Its current name.
    name: str


class SettlementRule(TypedDict):
    # Decimal with at most six fractional digits: the largest amount of a calendar month.
    cap: str | None
    # When the record was made.
    createdAt: str
    # A code of ISO 4217.
    currency: str
    # A receipt is rated by the rules in force when it was rendered.
    effectiveFrom: str
    # Exclusive; null is open. Equal to effectiveFrom if the rule was retired before it began: it never was in
    # force.
    effectiveUntil: str | None
    # The record's id.
    id: str
    match: SettlementMatch
    # Decimal with at most six fractional digits: the least amount of a calendar month in which the rule is in
    # force.
    minimum: str | None
    # Decimal price of one unit, with at most nine fractional digits; with tiers, that of the first units of a
    # month.
    price: str
    # If several rules fit a receipt, the one with the highest priority rates it; then the most specific one; then
    # the one with the lowest id.
    priority: int
    # Grows with every change.
    revision: int
    # How its amounts are divided: 10,000 basis points in total.
    shares: list[SettlementShare]
    # The record's own state.
    state: Literal["ACTIVE", "RETIRED"]
    # Prices for more units in a month, by rising volume; empty: there is one price.
    tiers: list[Tier]
    # GRADUATED: each tier's price is for the units above its volume, up to the next tier. VOLUME: the price of the
    # highest tier that is reached is for all units of the month. Null without tiers.
    tiersMode: str | None
    # The IANA time zone of the calendar months to which tiers, minimum and cap belong.
    timeZone: str
    # What the price applies to.
    unit: Literal["EVENT", "MS", "SECOND", "IMPRESSION", "CPM"]
    # When the record was last changed.
    updatedAt: str


class SettlementRuleChange(TypedDict):
    # Decimal with at most six fractional digits: the largest amount of a calendar month. Not applied to packs.
    cap: NotRequired[str | None]
    # A code of ISO 4217.
    currency: str
    # The rule rates receipts rendered at this moment or later; it may be in the past.
    effectiveFrom: str
    # Exclusive; absent: until it is retired.
    effectiveUntil: NotRequired[str | None]
    # Which receipts the rule is for; absent: all.
    match: NotRequired[NewSettlementMatch]
    # Decimal with at most six fractional digits: the least amount of a calendar month in which the rule is in
    # force, whole. Not applied to packs.
    minimum: NotRequired[str | None]
    # Decimal price of one unit, with at most nine fractional digits; with tiers, that of the first units of a
    # month.
    price: str
    # If several rules fit a receipt, the one with the highest priority rates it.
    priority: NotRequired[int | None]
    # How the rule's amounts are divided: 10,000 basis points in total.
    shares: list[NewSettlementShare]
    # Prices for more units in a month, by rising volume; absent: there is one price. Not applied to packs.
    tiers: NotRequired[list[NewTier] | None]
    # GRADUATED: each tier's price is for the units above its volume, up to the next tier. VOLUME: the price of the
    # highest tier that is reached is for all units of the month. Absent: GRADUATED.
    tiersMode: NotRequired[str | None]
    # IANA time zone of the calendar months to which tiers, minimum and cap belong, and of dates without a time;
    # absent: the tenant's, or of a rule that is changed its own.
    timeZone: NotRequired[str | None]
    # What the price applies to: one metered receipt, millisecond, second or impression, or a thousand impressions.
    unit: Literal["EVENT", "MS", "SECOND", "IMPRESSION", "CPM"]


class SettlementRuleData(TypedDict):
    rule: SettlementRule


class SettlementRuleList(TypedDict):
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The rules of this page.
    rules: list[SettlementRule]


class SettlementShare(TypedDict):
    # Basis points: 10,000 are the whole.
    bps: int
    # The counterparty.
    counterpartyId: str


class SettlementTotal(TypedDict):
    # Decimal: the sum of the lines. Each right counts once.
    amount: str
    # A code of ISO 4217.
    currency: str
    # Decimal: what receipts under open disputes would add: the lines with them minus the lines without. As a line
    # is rounded once, it may differ in the sixth fractional digit from what they are worth alone.
    heldAmount: str
    # How the amount is divided, sorted by counterpartyId.
    payees: list[SettlementPayee]


class SettlementUnrated(TypedDict):
    # Decimal: the metered impressions.
    impressions: str
    # The tier at which they are metered.
    meteringBasis: str
    # What is billed, in milliseconds.
    quantityMs: int
    # Why.
    reason: Literal["NO_RULE", "AMOUNT_TOO_LARGE"]
    # How many receipts there are.
    receipts: int
    # The right's id.
    rightId: str


class Signature(TypedDict):
    # The signature algorithm.
    algorithm: Literal["ed25519"]
    # The key's id in the directory of verification keys.
    keyId: str
    # 64 bytes, base64url.
    value: str


class Stated(TypedDict):
    # Decimal.
    heldAmount: str
    # How many receipts are behind its lines.
    receipts: int
    # Decimal.
    total: str


Statement = TypedDict("Statement", {
    # The log position up to which receipts are stated: the end of the pack.
    "asOf": 'str',
    # Its number among the corrections of the first statement, from 1; 0 for a first statement.
    "correction": 'int',
    # The first statement of the period, which this one corrects. Null for a first statement.
    "corrects": 'str | None',
    # The counterparty whose shares it states; null: all counterparties.
    "counterpartyId": 'str | None',
    # When the record was made.
    "createdAt": 'str',
    # A code of ISO 4217.
    "currency": 'str',
    # Decimal, of a correction: its total minus the total of the previous statement; null for a first statement.
    "difference": 'str | None',
    # Decimal, in the currency's minor unit: what is open of its payables, credits subtracted, so below zero if they
    # are more; null until it is ISSUED.
    "dueAmount": 'str | None',
    # Start of the period: receipts rendered at or after it count.
    "from": 'str',
    # Decimal: what receipts under open disputes would add to the total: the lines with them minus the lines
    # without. As a line is rounded once, it may differ in the sixth fractional digit from what they are worth
    # alone.
    "heldAmount": 'str',
    # The record's id.
    "id": 'str',
    # When it was signed; null until it is ISSUED.
    "issuedAt": 'str | None',
    # The number of its payable, of a statement for one counterparty; null until it is ISSUED. In a statement for
    # all, the payable of each payee has one.
    "number": 'str | None',
    # The newest pack that it states. This pack and all before it verify the statement.
    "packId": 'str',
    # Decimal: what was paid or set off of its payables.
    "paidAmount": 'str',
    # The month, week or day of timeZone that it states, such as 2026-11, 2026-W48 or 2026-11-28; null for any other
    # period.
    "period": 'str | None',
    # How many receipts are behind its lines.
    "receipts": 'int',
    # The newest payment's reference; null until one is recorded.
    "reference": 'str | None',
    # Grows with every change.
    "revision": 'int',
    # The root hash of the log there.
    "rootHash": 'str',
    # Its place among the statements and corrections that were issued, from 1, in the order of their issue; 0 until
    # it is ISSUED.
    "sequence": 'int',
    # When it was paid in full; null until it is SETTLED.
    "settledAt": 'str | None',
    # SHA-256 of the signed file, base64url; null until it is ISSUED.
    "sha256": 'str | None',
    # Where a statement is read or listed, of a DRAFT that was overtaken, so that it can't be issued any more.
    # CORRECTED: what it corrects was corrected or voided since; OVERLAPPED: another statement of its time was
    # issued or voided; DISPUTED: a dispute of its time was opened or resolved: draft it again. STATED: another
    # statement of the same was issued: correct that. A list says it of its newest 100 drafts.
    "stale": 'NotRequired[Literal["CORRECTED", "STATED", "OVERLAPPED", "DISPUTED"]]',
    # The record's own state.
    "state": 'Literal["DRAFT", "DISCARDED", "ISSUED", "SETTLED", "VOIDED"]',
    # The IANA time zone of its dates.
    "timeZone": 'str',
    # End of the period: receipts rendered before it count.
    "to": 'str',
    # Decimal: the sum of all stated shares.
    "total": 'str',
    # How many events the log has up to there.
    "treeSize": 'int',
    # When the record was last changed.
    "updatedAt": 'str',
    # Why the period's statements were voided, on the statement that voids them; otherwise null.
    "voidReason": 'str | None',
})


class StatementData(TypedDict):
    statement: Statement


class StatementDocument(TypedDict):
    # The signed text, or, of a DRAFT, the text to be signed: RFC 8785 JSON. Null once it is DISCARDED, or if a
    # restored database lacks it.
    document: dict[str, Any] | None
    statement: Statement


class StatementList(TypedDict):
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The statements of this page.
    statements: list[Statement]


# What the device observed. Every field is optional, and further fields are accepted. The gate reads all of
# them; the description of each says what is kept afterwards. Of further fields the gate reads optOut (or
# optedOut), guardianConsent, profiled, bvlos, neuralDataConsent and substrate, and keeps none.
class Telemetry(TypedDict):
    # State of the host application. Kept always.
    appState: NotRequired[Literal["foreground", "background"]]
    # Sound is actually audible. Kept always.
    audible: NotRequired[bool]
    # The spot beam that serves. Kept unless minorMode.
    beamId: NotRequired[str]
    # Where the viewer is, seen from the boundary. Kept never.
    boundaryProximity: NotRequired[Literal["inside", "near_edge", "outside"]]
    # A drone's waiver for flight beyond visual line of sight. Kept never.
    bvlosWaiverId: NotRequired[str | None]
    # Bystanders may be captured. Kept never.
    bystanderCaptureRisk: NotRequired[Literal["none", "possible"]]
    # Derived risk of motion sickness. Kept never.
    comfortVectionRisk: NotRequired[Literal["low", "med", "high"]]
    # Progress of a video. Kept always.
    completionState: NotRequired[Literal["started", "first_quartile", "midpoint", "third_quartile", "complete"]]
    # The coverage cell. Kept unless minorMode.
    coverageCellId: NotRequired[str]
    # Tracking lock is established. Kept always.
    dopplerLocked: NotRequired[bool]
    # Derived dwell of the eyes, in milliseconds. Kept with eyeTrackingConsent, unless minorMode.
    dwellInViewMs: NotRequired[float]
    # Explicit, revocable consent to eye tracking. Kept always.
    eyeTrackingConsent: NotRequired[bool]
    # Code of the licensed footprint's region. Kept always.
    footprintRegion: NotRequired[str]
    # The content is inside the field of view. Kept always.
    fovPresence: NotRequired[bool]
    # Derived: it was looked at. Never raw gaze. Kept with eyeTrackingConsent, unless minorMode.
    gazeInView: NotRequired[bool]
    # The anchor is georeferenced. Kept with spatialMappingConsent, unless minorMode or bystanders may be captured.
    geoAnchored: NotRequired[bool]
    # The gateway on the ground that serves. Kept always.
    groundStationId: NotRequired[str]
    # Headset or glasses are actually worn. Kept always.
    headsetWorn: NotRequired[bool]
    # How much of the view is rendered. Kept never.
    immersionLevel: NotRequired[Literal["mixed", "progressive", "full"]]
    # The serving cell is inside the right's licensed footprint; false refuses. Kept always.
    licensedRegionMatch: NotRequired[bool]
    # Estimate of the ambient light. Kept always.
    lightingState: NotRequired[Literal["ok", "too_dark", "too_bright"]]
    # State of the downlink. Kept always.
    linkState: NotRequired[Literal["acquired", "degraded", "lost"]]
    # Derived state of motion. Kept never.
    locomotionState: NotRequired[Literal["stationary", "seated", "walking", "in_vehicle"]]
    # The viewer is or may be a minor; rules are stricter. Kept never.
    minorMode: NotRequired[bool]
    # The player is muted. Kept always.
    muted: NotRequired[bool]
    # Real things hide rendered ones behind them. Kept with spatialMappingConsent, unless minorMode or bystanders
    # may be captured.
    occlusionResolved: NotRequired[bool]
    # Processed in orbit. Kept always.
    onboardProcessed: NotRequired[bool]
    # The viewer sees through to the room. Kept never.
    passthroughActive: NotRequired[bool]
    # A drone's remote identification is on. Kept never.
    remoteIdActive: NotRequired[bool]
    # The boundary of the play area is defined. Kept never.
    roomScaleBounded: NotRequired[bool]
    # The anchor stays from session to session. Kept with spatialMappingConsent, unless minorMode or bystanders may
    # be captured.
    spatialAnchorPersistent: NotRequired[bool]
    # Explicit consent for the mapped space. Kept always.
    spatialMappingConsent: NotRequired[bool]
    # The spectrum band. Kept always.
    spectrumBand: NotRequired[str]
    # Speed of the vehicle, in miles per hour. Kept never.
    speedMph: NotRequired[float]
    # Met the viewability bar: half of the pixels for 2 s of video or 1 s of display. Kept always.
    viewable: NotRequired[bool]
    # Visibility of the session; what is not visible is not billed. Kept always.
    visibilityState: NotRequired[Literal["visible", "blurred", "hidden"]]
    # A voice prompt or announcement is being played. Kept never.
    voicePromptActive: NotRequired[bool]
    # Attenuation by weather, in dB. Kept always.
    weatherAttenuationDb: NotRequired[float]


class Tenant(TypedDict):
    counts: TenantCounts
    # When the record was made.
    createdAt: str
    # The organisation's id.
    orgId: str
    # The tenant's id.
    tenantId: str
    # The IANA time zone of its statements and rules, unless they name another.
    timeZone: str


class TenantCounts(TypedDict):
    # How many there are.
    bases: int
    # How many there are.
    challenges: int
    # How many are durable; while the warehouse is more than 2 seconds behind, how many it has loaded.
    events: int
    # How many there are.
    offers: int
    # How many there are.
    proofPacks: int
    # How many there are.
    rights: int


class TenantData(TypedDict):
    developer: Developer
    key: CallingKey
    tenant: Tenant


class Tier(TypedDict):
    # The price is for units above so many in the month.
    above: int
    # Decimal price of one unit, with at most nine fractional digits.
    price: str


class UnrecognisedRow(TypedDict):
    # Start of the bucket, with the zone's offset.
    bucket: str | None
    # How often it was sent, in deliveries that were refused as well.
    deliveries: int
    # The field of telemetry that it stands for: the same but for case, _ and -, or one edit.
    meant: str
    # As it was sent. Null where a node had too many names to separate them.
    name: str | None


class ValidationError(TypedDict):
    # The field at fault.
    field: str
    # For people; it may change.
    message: str


class Violation(TypedDict):
    # The error code; it doesn't change within a version of the rules.
    code: str
    # The field at fault.
    field: str
    # Every field that the rule reads.
    fields: list[str]
    # The limit that was broken, where the rule has one.
    limit: NotRequired[float]
    # For people; it may change.
    message: str
    # The value that the gate read; null if there was none.
    observed: Any
    # Where to read about it.
    reference: str
    # What the rule requires.
    required: str
    # The rule's name.
    rule: str
    # The medium, whose rules apply.
    substrate: Literal["DOOH", "CTV", "MOBILE", "STREAMING", "AUDIO", "MESSAGING", "GAMING", "GLASSES", "AR_CONTACTS", "HUD", "VOLUMETRIC", "HOLOGRAM", "WEARABLES", "AMBIENT", "NEURAL", "AUTOMOTIVE", "SMART_HOME", "ROBOTICS", "DRONE", "SATELLITE", "AVIATION", "MARITIME", "SOCIAL_FEED", "ANY"]
    # What made the rule stricter than usual.
    tightenedBy: NotRequired[str]
    # The unit of the limit.
    unit: NotRequired[str]


class Voiding(TypedDict):
    # Why. It is signed, and kept in the audit log permanently: no place for personal data.
    reason: str


class Webhook(TypedDict):
    # When the record was made.
    createdAt: str
    # What it is for.
    description: str
    # The kinds of events that are sent.
    events: list[str]
    # The first failure since the last successful attempt; null while attempts succeed.
    failingSince: str | None
    # The record's id.
    id: str
    # The key, or the member, under whom events are sent: the one that last set url or events, or that resumed the
    # webhook after the end of that key or a change of that member. A key's successors in rotations take its place.
    keyId: str
    # Grows with every change.
    revision: int
    # While it is PAUSED, events wait; while it is DISABLED, none are queued.
    state: Literal["ACTIVE", "PAUSED", "DISABLED"]
    # Why the service paused or disabled it; null if it did not.
    stateReason: str | None
    # When the record was last changed.
    updatedAt: str
    # Where events are sent.
    url: str
    # The limit for which its messages wait, and what ends it; null if they don't.
    waitReason: str | None
    # Until when its messages wait, because the limit that waitReason names is reached; null if they don't.
    waitsUntil: str | None


class WebhookAttempt(TypedDict):
    # When it began.
    at: str
    # The beginning of the response's body, at most 1 KiB; null if there was none, or if it came from what only
    # --webhook-allow admits.
    bodyExcerpt: str | None
    # How long it took, in milliseconds.
    durationMs: int
    # Why there was no response; null if there was one. Without details, if it leads to what only --webhook-allow
    # admits.
    error: str | None
    # The status of the receiver's response; null if there was none.
    status: int | None


class WebhookChange(TypedDict):
    # New description.
    description: NotRequired[str | None]
    # New kinds of events.
    events: NotRequired[list[Literal["*", "basis.*", "basis.created", "beacon.*", "beacon.created", "challenge.*", "challenge.opened", "challenge.overturned", "challenge.upheld", "challenge.withdrawn", "counterparty.*", "counterparty.changed", "counterparty.created", "counterparty.deactivated", "delivery.*", "delivery.recorded", "dispute.*", "dispute.investigation_started", "dispute.opened", "dispute.resolved", "dispute.responded", "dsar.*", "dsar.cancelled", "dsar.collecting", "dsar.download_started", "dsar.downloaded", "dsar.expired", "dsar.failed", "dsar.packaging", "dsar.queued", "dsar.ready", "dsar.requested", "erasure.*", "erasure.completed", "events.*", "events.exported", "gate.*", "gate.refusals", "held_row.*", "held_row.expired", "issuer.*", "issuer.changed", "key.*", "key.created", "key.revoked", "key.rotated", "mapping.*", "mapping.created", "mapping.retired", "member.*", "member.bound", "member.changed", "member.invited", "member.joined", "member.removed", "offer.*", "offer.accepted", "offer.countered", "offer.expired", "offer.proposed", "offer.rejected", "offer.withdrawn", "pack.*", "pack.downloaded", "pack.sealed", "payable.*", "payable.issued", "payable.paid", "payee_link.*", "payee_link.created", "payee_link.revoked", "record.*", "record.released", "rejected_play.*", "rejected_play.dismissed", "right.*", "right.issued", "right.resumed", "right.revoked", "right.suspended", "settlement_rule.*", "settlement_rule.changed", "settlement_rule.created", "settlement_rule.retired", "statement.*", "statement.created", "statement.discarded", "statement.issued", "statement.paid", "statement.reopened", "statement.settled", "statement.voided", "subject.*", "subject.erased", "tenant.*", "tenant.created", "tenant.dropped", "webhook.*", "webhook.changed", "webhook.created", "webhook.deleted", "webhook.disabled", "webhook.paused", "webhook.recovered", "webhook.resent", "webhook.secret_rotated", "webhook.tested"]]]
    # New state.
    state: NotRequired[str | None]
    # Another URL.
    url: NotRequired[str | None]


class WebhookData(TypedDict):
    webhook: Webhook


class WebhookDelivery(TypedDict):
    # The last 20 attempts, oldest first.
    attempts: list[WebhookAttempt]
    # When the record was made.
    createdAt: str
    # The event's time; for a batch, the time of the first event.
    eventAt: str
    # How many events are sent.
    eventCount: int
    # The event that is sent; for a batch, the first one.
    eventId: str
    # The type of the event, or of all events in the batch.
    eventType: str
    # The value of the header webhook-id of each attempt.
    id: str
    # When the next attempt is due; null if there is none, or while the event is not in the log yet.
    nextAttemptAt: str | None
    # FAILED after the last attempt.
    state: Literal["PENDING", "DELIVERED", "FAILED"]
    # When the record was last changed.
    updatedAt: str
    # The webhook's id.
    webhookId: str


class WebhookDeliveryData(TypedDict):
    delivery: WebhookDelivery


class WebhookDeliveryList(TypedDict):
    # The deliveries of this page.
    deliveries: list[WebhookDelivery]
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None


class WebhookList(TypedDict):
    # `cursor` of the next page; null ends the list.
    nextCursor: str | None
    # The webhooks of this page.
    webhooks: list[Webhook]


class WebhookRecovery(TypedDict):
    # How many deliveries are queued, but for those beyond the 100,000 that may wait: recover again once these are
    # sent.
    count: int
    # True if they were only counted.
    dryRun: bool
    # True if there are more than could be counted in 5 seconds.
    more: bool


class WebhookRecoveryData(TypedDict):
    recovery: WebhookRecovery

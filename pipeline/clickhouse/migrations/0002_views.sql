-- +goose NO TRANSACTION
-- +goose Up

-- What analysts read. Each view reads deduplicated rows; a row policy on the tables
-- (see analyst.sql) applies to the views too, since these run with the rights of the
-- user who queries them. Times are UTC. No view shows a private part.

-- One line a receipt. A duplicate is a delivery of a row that was sent before, at a lower
-- position; or one whose idempotency key was, on an event at most 24 h older: it has reason
-- DUPLICATE, metering basis none and quantity 0, and meters nothing.
CREATE OR REPLACE VIEW receipts AS
SELECT
	e.tenant_id      AS tenant_id,
	e.receipt_id     AS receipt_id,
	e.event_id       AS event_id,
	e.right_id       AS right_id,
	e.right_revision AS right_revision,
	e.basis_id       AS basis_id,
	e.substrate      AS substrate,
	e.rendered_at    AS rendered_at,
	e.issued_at      AS issued_at,
	e.signing_key_id AS signing_key_id,
	(e.log_partition, e.generation, e.position) IN (
		SELECT log_partition, generation, position FROM duplicates
		WHERE (tenant_id, first_event_id) NOT IN (SELECT tenant_id, event_id FROM withdrawn)) AS duplicate,
	e.metered AND NOT duplicate AS metered,
	if(duplicate, toLowCardinality('DUPLICATE'), e.reason) AS reason,
	if(duplicate, toLowCardinality('none'), e.metering_basis) AS metering_basis,
	if(duplicate, 0, e.quantity_ms) AS quantity_ms,
	toDecimal64(if(duplicate, 0, e.impressions), 0) * toDecimal64('0.0001', 4) AS impressions,
	e.completion    AS completion, -- how far a video was played
	e.generation    AS generation,
	e.log_partition AS log_partition,
	e.position      AS position,
	e.metering_basis AS recorded_basis, -- by the node, which knows of no duplicates
	e.reason        AS recorded_reason,
	e.line          AS line, -- a hash of right, substrate, basis, recorded_basis, recorded_reason and completion
	e.node          AS node, -- who signed it
	e.spatial_anchor_id    AS spatial_anchor_id,
	e.spatial_placement_id AS spatial_placement_id -- empty: none
FROM events AS e FINAL
WHERE e.type = 'delivery.recorded';

-- Sums by hour of rendered_at: of what is sealed and copied by the copy (see pack_sums), of everything behind
-- it by rows. The rows of a tenant without a copy are summed by narrow columns first, and by texts what is
-- left. All parts go by one answer of how far copies go, so that none is missing or twice. Only tenants with events
-- behind their copies have rows searched for: from the copy of one that was idle for a year on, that is a year of everyone's.
CREATE OR REPLACE VIEW metering_hourly AS
WITH
(
	SELECT (groupArray(tenant_id), groupArray(copy), groupArray(generation), groupArray(position),
		groupArrayIf(tenant_id, place < end), minIf(place, place < end))
	FROM (
		SELECT c.tenant_id AS tenant_id, copy, generation, position, bitShiftLeft(toUInt128(generation), 64) + toUInt128(position) AS place, end
		FROM (SELECT tenant_id, copy, generation, position FROM pack_sums_copied FINAL WHERE pack_id != '') AS c
		LEFT JOIN (SELECT tenant_id, bitNot(min(version)) AS end FROM events GROUP BY tenant_id) AS e ON c.tenant_id = e.tenant_id
	)
) AS copied,
rows AS (
	SELECT r.tenant_id AS tenant_id, toStartOfHour(r.rendered_at) AS hour, r.duplicate AS duplicate,
		any(r.right_id) AS right_id, any(r.substrate) AS substrate, any(r.basis_id) AS basis_id,
		any(r.recorded_basis) AS recorded_basis, any(r.recorded_reason) AS recorded_reason,
		toInt64(count()) AS n, sum(r.quantity_ms) AS ms, sum(r.impressions) AS im
	FROM receipts AS r
	WHERE r.tenant_id NOT IN (SELECT arrayJoin(copied.1))
	GROUP BY tenant_id, hour, duplicate, r.line
	UNION ALL
	SELECT r.tenant_id AS tenant_id, toStartOfHour(r.rendered_at) AS hour, r.duplicate AS duplicate,
		any(r.right_id) AS right_id, any(r.substrate) AS substrate, any(r.basis_id) AS basis_id,
		any(r.recorded_basis) AS recorded_basis, any(r.recorded_reason) AS recorded_reason,
		toInt64(count()) AS n, sum(r.quantity_ms) AS ms, sum(r.impressions) AS im
	FROM receipts AS r
	WHERE (r.tenant_id, r.event_id) IN (
			-- Copies of an event at higher positions are here too.
			SELECT e.tenant_id, e.event_id FROM events AS e
			WHERE e.version < bitNot(copied.6) AND e.tenant_id IN (SELECT arrayJoin(copied.5)) AND e.type = 'delivery.recorded'
				AND (e.generation, e.position) > (copied.3[transform(e.tenant_id, copied.1, arrayEnumerate(copied.1), 0)], copied.4[transform(e.tenant_id, copied.1, arrayEnumerate(copied.1), 0)]))
		AND (r.generation, r.position) > (copied.3[transform(r.tenant_id, copied.1, arrayEnumerate(copied.1), 0)], copied.4[transform(r.tenant_id, copied.1, arrayEnumerate(copied.1), 0)])
	GROUP BY tenant_id, hour, duplicate, r.line
)
SELECT
	tenant_id, hour, right_id, substrate, basis_id, metering_basis, reason,
	sum(n)  AS receipts,
	sum(ms) AS quantity_ms,
	sum(im) AS impressions
FROM (
	SELECT tenant_id, hour, right_id, substrate, basis_id,
		if(duplicate, 'none', recorded_basis)       AS metering_basis,
		if(duplicate, 'DUPLICATE', recorded_reason) AS reason,
		n, ms, im
	FROM rows
	UNION ALL
	SELECT tenant_id, toStartOfHour(hour) AS hour, right_id, substrate, basis_id, metering_basis, reason,
		receipts AS n, quantity_ms AS ms, toDecimal64(impressions, 0) * toDecimal64('0.0001', 4) AS im
	FROM pack_sums AS s FINAL
	WHERE (s.tenant_id, s.copy) IN (SELECT arrayJoin(arrayZip(copied.1, copied.2)))
		AND (s.generation, s.position) <= (copied.3[transform(s.tenant_id, copied.1, arrayEnumerate(copied.1), 0)], copied.4[transform(s.tenant_id, copied.1, arrayEnumerate(copied.1), 0)])
)
GROUP BY tenant_id, hour, right_id, substrate, basis_id, metering_basis, reason;

-- The same by day.
CREATE OR REPLACE VIEW metering_daily AS
SELECT tenant_id, toDate(hour) AS day, right_id, substrate, basis_id, metering_basis, reason,
	sum(h.receipts) AS receipts, sum(h.quantity_ms) AS quantity_ms, sum(h.impressions) AS impressions
FROM metering_hourly AS h
GROUP BY tenant_id, day, right_id, substrate, basis_id, metering_basis, reason;

-- One line a count of a gate.refusals event: how many deliveries a rule has refused
-- since the event before. A delivery that broke two rules is in both. right_id is
-- empty where the event names none.
CREATE OR REPLACE VIEW refusals AS
SELECT
	tenant_id,
	event_id,
	at,
	JSONExtractString(one, 'rightId') AS right_id,
	JSONExtractString(one, 'rule')    AS rule,
	JSONExtractInt(one, 'count')      AS refusals
FROM (
	SELECT tenant_id, event_id, e.at AS at, arrayJoin(JSONExtractArrayRaw(event, 'data', 'counts')) AS one
	FROM events AS e FINAL WHERE type = 'gate.refusals'
)
WHERE JSONType(one) = 'Object' AND JSONType(one, 'count') IN ('Int64', 'UInt64') AND JSONType(one, 'rule') = 'String'
	AND (JSONType(one, 'rightId') = 'String' OR NOT JSONHas(one, 'rightId'));

-- What the tenant's settlement rules make of metered receipts, as sealer/doc.go "Settlement" says, but
-- by day of rendered_at instead of by pack: one line a day, right, metering basis and rule. Each
-- receipt is rated by the rules as they are now, those with an end included; lines hold every metered receipt,
-- once. unrated is empty, or says why the line has no amount: NO_RULE, and then rule_id is empty too, or
-- AMOUNT_TOO_LARGE. shares are of counterparty_ids, in the order of the rule. No minimum and no cap is
-- applied, and disputed receipts are not held out.
--
-- Receipts are summed first by what no rule can tell apart: their names, and the stretch of time
-- between two moments at which a rule begins or ends. Such sums meet all rules of the tenant.
CREATE OR REPLACE VIEW settlement_lines AS
WITH
rules AS (
	SELECT tenant_id, record.id AS id, record.currency AS currency, record.unit AS unit, record.price AS price, record.match AS match,
		-- DateTime64 ends with 2299.
		parseDateTime64BestEffortOrZero(least(record.effectiveFrom, '2299-01-01T00:00:00.000Z'), 3, 'UTC') AS effective_from,
		parseDateTime64BestEffortOrZero(if(record.effectiveUntil = '', '2299-01-01T00:00:00.000Z', least(record.effectiveUntil, '2299-01-01T00:00:00.000Z')), 3, 'UTC') AS effective_until,
		record.shares.counterpartyId AS counterparty_ids, record.shares.bps AS bps,
		row_number() OVER (PARTITION BY tenant_id ORDER BY record.priority DESC,
			match.rightId = '', match.basisId = '', match.campaign = '', match.label.name = '', match.substrate = '', match.meteringBasis = '', match.completion = '', id) AS rank -- from 1
	FROM (
		SELECT tenant_id, JSONExtract(argMax(event, place), 'data', 'Tuple(
			id String, currency String, unit String, price String, priority Int64, effectiveFrom String, effectiveUntil String,
			match Tuple(rightId String, basisId String, campaign String, label Tuple(name String, value String), substrate String, meteringBasis String, completion String),
			shares Array(Tuple(counterpartyId String, bps Int64)))') AS record
		FROM events AS e FINAL
		WHERE startsWith(type, 'settlement_rule.')
		GROUP BY tenant_id, JSONExtractString(event, 'data', 'id')
	)
),
-- Campaigns and labels of rights, by the oldest event that issued each; nothing if they are not of their types.
scopes AS (
	SELECT tenant_id, JSONExtractString(event, 'subject', 'id') AS right_id,
		argMin(JSONExtractRaw(event, 'data', 'scope'), place) AS scope,
		JSONType(scope) = 'Object'
			AND (NOT JSONHas(scope, 'campaigns') OR JSONType(scope, 'campaigns') = 'Array' AND arrayAll(c -> JSONType(c) = 'String', JSONExtractArrayRaw(scope, 'campaigns')))
			AND (NOT JSONHas(scope, 'labels') OR JSONType(scope, 'labels') = 'Object' AND arrayAll(l -> JSONType(l.2) = 'String', JSONExtractKeysAndValuesRaw(scope, 'labels'))) AS sound,
		if(sound, JSONExtract(scope, 'campaigns', 'Array(String)'), []) AS campaigns,
		if(sound, JSONExtract(scope, 'labels', 'Map(String, String)'), map()) AS labels
	FROM events AS e FINAL
	WHERE type = 'right.issued' AND subject_kind = 'right'
	GROUP BY tenant_id, right_id
),
-- The rules that name a campaign or a label, of which each right has what they name.
scoped AS (
	SELECT s.tenant_id AS tenant_id, s.right_id AS right_id, groupArray(rules.rank) AS ranks
	FROM scopes AS s INNER JOIN (SELECT tenant_id, rank, match FROM rules WHERE match.campaign != '' OR match.label.name != '') AS rules ON s.tenant_id = rules.tenant_id
	WHERE (rules.match.campaign = '' OR has(s.campaigns, rules.match.campaign))
		AND (rules.match.label.name = '' OR mapContains(s.labels, rules.match.label.name) AND s.labels[rules.match.label.name] = rules.match.label.value)
	GROUP BY tenant_id, right_id
),
edges AS (
	SELECT DISTINCT tenant_id, arrayJoin([effective_from, effective_until]) AS edge FROM rules
),
sums AS (
	SELECT r.tenant_id AS tenant_id, toDate(r.rendered_at) AS day, edges.edge AS since,
		any(r.rendered_at) AS rendered_at, any(r.right_id) AS right_id, any(r.basis_id) AS basis_id, any(r.substrate) AS substrate,
		any(r.recorded_basis) AS metering_basis, any(r.completion) AS completion,
		toInt64(count()) AS receipts, sum(r.quantity_ms) AS quantity_ms, sum(r.impressions) AS impressions
	FROM receipts AS r ASOF LEFT JOIN edges ON r.tenant_id = edges.tenant_id AND r.rendered_at >= edges.edge
	WHERE r.metered
	GROUP BY tenant_id, day, since, r.line
),
fitting AS (
	SELECT s.tenant_id AS tenant_id, s.day AS day, s.right_id AS right_id, s.metering_basis AS metering_basis,
		any(s.receipts) AS receipts, any(s.quantity_ms) AS quantity_ms, any(s.impressions) AS impressions,
		minIf(rules.rank, rules.match.rightId IN ('', s.right_id) AND rules.match.basisId IN ('', s.basis_id)
			AND (rules.match.campaign = '' AND rules.match.label.name = '' OR has(scoped.ranks, rules.rank))
			AND rules.match.substrate IN ('', s.substrate) AND rules.match.meteringBasis IN ('', s.metering_basis) AND rules.match.completion IN ('', s.completion)
			AND s.rendered_at >= rules.effective_from AND s.rendered_at < rules.effective_until) AS rank -- 0: none fits
	FROM sums AS s LEFT JOIN scoped ON s.tenant_id = scoped.tenant_id AND s.right_id = scoped.right_id LEFT JOIN rules ON s.tenant_id = rules.tenant_id
	GROUP BY tenant_id, day, right_id, metering_basis, s.basis_id, s.substrate, s.completion, s.since
),
rated AS (
	SELECT f.tenant_id AS tenant_id, f.day AS day, f.right_id AS right_id, f.metering_basis AS metering_basis,
		f.receipts AS receipts, f.quantity_ms AS quantity_ms, f.impressions AS impressions,
		(rules.id, rules.currency, rules.unit, rules.price, rules.counterparty_ids, rules.bps) AS rule
	FROM fitting AS f LEFT JOIN rules ON f.tenant_id = rules.tenant_id AND f.rank = rules.rank
),
lines AS (
	SELECT tenant_id, day, right_id, metering_basis, rule,
		sum(receipts) AS receipts, sum(quantity_ms) AS quantity_ms, sum(impressions) AS impressions,
		toInt128(toDecimal128OrZero(rule.4, 9) * 1000000000) AS billionths,
		-- What the price is of, and how many of it make a millionth of a billionth's.
		billionths * multiIf(rule.3 = 'EVENT', toInt128(receipts), rule.3 IN ('MS', 'SECOND'), toInt128(quantity_ms), toInt128(impressions * 10000)) AS product,
		toInt128(transform(rule.3, ['EVENT', 'MS', 'SECOND', 'IMPRESSION', 'CPM'], [1000, 1000, 1000000, 10000000, 10000000000], 1000)) AS divisor,
		intDiv(product, divisor) AS whole, product - whole * divisor AS rest,
		whole + if(2 * rest > divisor OR 2 * rest = divisor AND whole % 2 = 1, 1, 0) AS rounded,
		multiIf(rule.1 = '', 'NO_RULE', rounded > 9223372036854775807, 'AMOUNT_TOO_LARGE', '') AS unrated,
		if(unrated = '', toInt64(rounded), 0) AS micros
	FROM rated
	GROUP BY tenant_id, day, right_id, metering_basis, rule
),
-- Each share is rounded down; the millionths that are left go to those of which the most was cut off.
if(unrated = '', rule.5, []) AS parties,
if(unrated = '', rule.6, []) AS bps,
arrayMap(b -> intDiv(micros, 10000) * b + intDiv(micros % 10000 * b, 10000), bps) AS floors,
arrayMap(b -> micros % 10000 * b % 10000, bps) AS rests
SELECT
	tenant_id, day, right_id, metering_basis,
	rule.1 AS rule_id, rule.2 AS currency, rule.3 AS unit, toDecimal128OrZero(rule.4, 9) AS price,
	receipts, quantity_ms, impressions, unrated,
	toDecimal128(micros, 0) * toDecimal128('0.000001', 6) AS amount,
	parties AS counterparty_ids,
	arrayMap((floor, rest, party) -> toDecimal128(floor + (arrayCount((r, p) -> r > rest OR r = rest AND p < party, rests, parties) < micros - arraySum(floors)), 0) * toDecimal128('0.000001', 6),
		floors, rests, parties) AS shares
FROM lines;

-- +goose NO TRANSACTION
-- +goose Up

-- What analysts read. Each view reads deduplicated rows; a row policy on the tables
-- (see analyst.sql) holds for the views too, since these run with the rights of
-- whoever asks. Times are UTC. No view shows a private part.

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
	toDecimal64(if(e.metered AND NOT duplicate, if(e.multiplier = 0, 10000, e.multiplier), 0), 0) * toDecimal64('0.0001', 4) AS impressions, -- its multiplier, or 1
	e.generation    AS generation,
	e.log_partition AS log_partition,
	e.position      AS position,
	e.metering_basis AS recorded_basis, -- by the node, which knows of no duplicates
	e.reason        AS recorded_reason,
	e.line          AS line -- a hash of right, substrate, basis, recorded_basis and recorded_reason
FROM events AS e FINAL
WHERE e.type = 'delivery.recorded';

-- Sums by hour of rendered_at: by narrow columns first, and by texts what is left.
CREATE OR REPLACE VIEW metering_hourly AS
SELECT
	tenant_id, hour, right_id, substrate, basis_id,
	if(duplicate, 'none', recorded_basis)       AS metering_basis,
	if(duplicate, 'DUPLICATE', recorded_reason) AS reason,
	sum(n)  AS receipts,
	sum(ms) AS quantity_ms,
	sum(im) AS impressions
FROM (
	SELECT r.tenant_id AS tenant_id, toStartOfHour(r.rendered_at) AS hour, r.duplicate AS duplicate,
		any(r.right_id) AS right_id, any(r.substrate) AS substrate, any(r.basis_id) AS basis_id,
		any(r.recorded_basis) AS recorded_basis, any(r.recorded_reason) AS recorded_reason,
		toInt64(count()) AS n, sum(r.quantity_ms) AS ms, sum(r.impressions) AS im
	FROM receipts AS r
	GROUP BY tenant_id, hour, duplicate, r.line
)
GROUP BY tenant_id, hour, right_id, substrate, basis_id, metering_basis, reason;

-- The same by day.
CREATE OR REPLACE VIEW metering_daily AS
SELECT
	tenant_id, day, right_id, substrate, basis_id,
	if(duplicate, 'none', recorded_basis)       AS metering_basis,
	if(duplicate, 'DUPLICATE', recorded_reason) AS reason,
	sum(n)  AS receipts,
	sum(ms) AS quantity_ms,
	sum(im) AS impressions
FROM (
	SELECT r.tenant_id AS tenant_id, toDate(r.rendered_at) AS day, r.duplicate AS duplicate,
		any(r.right_id) AS right_id, any(r.substrate) AS substrate, any(r.basis_id) AS basis_id,
		any(r.recorded_basis) AS recorded_basis, any(r.recorded_reason) AS recorded_reason,
		toInt64(count()) AS n, sum(r.quantity_ms) AS ms, sum(r.impressions) AS im
	FROM receipts AS r
	GROUP BY tenant_id, day, duplicate, r.line
)
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

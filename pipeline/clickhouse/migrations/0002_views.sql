-- +goose NO TRANSACTION
-- +goose Up

-- What analysts read. Each view reads deduplicated rows; a row policy on the tables
-- (see analyst.sql) holds for the views too, since these run with the rights of
-- whoever asks. Times are UTC. No view shows a private part.

-- One line a receipt. A duplicate is a delivery whose idempotency key was used
-- before, at a lower position, on an event at most 24 h older: it has reason
-- DUPLICATE, metering basis none and quantity 0, and meters nothing.
CREATE OR REPLACE VIEW receipts AS
SELECT
	e.tenant_id      AS tenant_id,
	e.receipt_id     AS receipt_id,
	e.event_id       AS event_id,
	e.right_id       AS right_id,
	e.right_revision AS right_revision,
	e.basis_id       AS basis_id,
	toString(e.substrate)                          AS substrate,
	fromUnixTimestamp64Milli(e.rendered_at, 'UTC') AS rendered_at,
	fromUnixTimestamp64Milli(e.issued_at, 'UTC')   AS issued_at,
	toString(e.signing_key_id)                     AS signing_key_id,
	(e.tenant_id, e.event_id) IN (
		SELECT k.tenant_id, k.event_id FROM (
			SELECT tenant_id, event_id, at, count() OVER earlier AS others, max(at) OVER earlier AS youngest
			FROM idempotency_keys FINAL
			WINDOW earlier AS (PARTITION BY tenant_id, idempotency ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
		) AS k WHERE k.others > 0 AND k.youngest >= k.at - 86400000) AS duplicate,
	e.metered AND NOT duplicate                       AS metered,
	if(duplicate, 'DUPLICATE', toString(e.reason))    AS reason,
	if(duplicate, 'none', toString(e.metering_basis)) AS metering_basis,
	if(duplicate, 0, e.quantity_ms)                   AS quantity_ms,
	e.generation    AS generation,
	e.log_partition AS log_partition,
	e.position      AS position
FROM events AS e FINAL
WHERE e.receipt_id != '';

-- Sums by hour of rendered_at, as they were when the newest batch was loaded.
CREATE OR REPLACE VIEW metering_hourly AS
SELECT
	tenant_id,
	toDateTime(intDiv(h.hour, 1000), 'UTC') AS hour,
	line.right_id         AS right_id,
	line.substrate        AS substrate,
	line.basis_id         AS basis_id,
	line.metering_basis   AS metering_basis,
	line.reason           AS reason,
	sum(line.receipts)    AS receipts,
	sum(line.quantity_ms) AS quantity_ms
FROM metering_hours AS h FINAL
ARRAY JOIN h.lines AS line
GROUP BY tenant_id, hour, right_id, substrate, basis_id, metering_basis, reason;

-- The same by day.
CREATE OR REPLACE VIEW metering_daily AS
SELECT
	tenant_id,
	toDate(h.hour) AS day,
	right_id, substrate, basis_id, metering_basis, reason,
	sum(h.receipts)    AS receipts,
	sum(h.quantity_ms) AS quantity_ms
FROM metering_hourly AS h
GROUP BY tenant_id, day, right_id, substrate, basis_id, metering_basis, reason;

-- One line a count of a gate.refusals event: how many deliveries a rule has refused
-- since the event before. A delivery that broke two rules is in both. right_id is
-- empty where the event names none.
CREATE OR REPLACE VIEW refusals AS
SELECT
	tenant_id,
	event_id,
	fromUnixTimestamp64Milli(at, 'UTC') AS at,
	JSONExtractString(one, 'rightId') AS right_id,
	JSONExtractString(one, 'rule')    AS rule,
	JSONExtractInt(one, 'count')      AS refusals
FROM (
	SELECT tenant_id, event_id, e.at AS at, arrayJoin(JSONExtractArrayRaw(event, 'data', 'counts')) AS one
	FROM events AS e FINAL WHERE type = 'gate.refusals'
)
WHERE JSONType(one) = 'Object' AND JSONType(one, 'count') IN ('Int64', 'UInt64') AND JSONType(one, 'rule') = 'String'
	AND (JSONType(one, 'rightId') = 'String' OR NOT JSONHas(one, 'rightId'));

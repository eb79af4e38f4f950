-- Questions that analysts ask, to copy from. A row policy adds the tenant.
-- Migrations 0002_views.sql says what each column means; times are UTC.

-- What was metered this year, by right and day.
SELECT day, right_id, substrate, sum(receipts) AS receipts, sum(quantity_ms) / 1000 AS seconds, sum(impressions) AS impressions
FROM metering_daily
WHERE day >= '2026-01-01' AND reason = 'METERED'
GROUP BY day, right_id, substrate
ORDER BY day, right_id, substrate;

-- Why deliveries were not metered, by hour.
SELECT hour, reason, sum(receipts) AS receipts
FROM metering_hourly
WHERE reason != 'METERED'
GROUP BY hour, reason
ORDER BY hour, reason;

-- The newest receipts of a right.
SELECT rendered_at, receipt_id, substrate, reason, quantity_ms, duplicate
FROM receipts
WHERE right_id = 'rgh_1'
ORDER BY rendered_at DESC
LIMIT 100;

-- How far renderedAt and issuedAt lie apart, in milliseconds.
SELECT substrate, quantile(0.5)(dateDiff('ms', rendered_at, issued_at)) AS median, max(dateDiff('ms', rendered_at, issued_at)) AS most
FROM receipts
GROUP BY substrate;

-- What the gate refused, by rule.
SELECT toDate(at) AS day, rule, right_id, sum(refusals) AS refused
FROM refusals
GROUP BY day, rule, right_id
ORDER BY refused DESC;

-- Sums for dashboards over months, which would take seconds to work out from receipts each
-- time: ClickHouse keeps them itself, in a view that it computes anew at stated times, as a
-- whole. Until then it shows the last result. Replace muniment (the database);
-- on a cluster add ON CLUSTER behind each name, and make the engine ReplicatedMergeTree.
CREATE MATERIALIZED VIEW IF NOT EXISTS muniment.metering_days
REFRESH EVERY 1 HOUR
ENGINE = MergeTree ORDER BY (tenant_id, day, right_id)
AS SELECT tenant_id, day, right_id, substrate, basis_id, metering_basis, reason, receipts, quantity_ms, impressions
FROM muniment.metering_daily;

-- When it was computed last, and whether that went well.
SELECT view, status, last_success_time, exception FROM system.view_refreshes WHERE database = 'muniment';

-- Not at the full hour only.
SYSTEM REFRESH VIEW muniment.metering_days;
SYSTEM WAIT VIEW muniment.metering_days;

-- An analyst of one tenant, on a server or cluster that stores users itself. Replace
-- muniment (the database), tnt_… (the tenant), and the names of role and user; on a
-- cluster add ON CLUSTER behind each name. The test engine can't store users:
-- deploy/stack/clickhouse.users.xml says the same there.
--
-- A row policy lets the role see its own tenant's rows in every table that is read
-- for the views. A server may be configured so that a user without a policy for a
-- table sees none of its rows: so the service itself is named first.
CREATE ROW POLICY IF NOT EXISTS service ON muniment.events, muniment.duplicates, muniment.withdrawn,
		muniment.pack_sums, muniment.pack_sums_copied
	USING 1 TO muniment;

CREATE ROLE IF NOT EXISTS analyst_tnt SETTINGS PROFILE 'readonly';

CREATE ROW POLICY IF NOT EXISTS analyst_tnt ON muniment.events, muniment.duplicates, muniment.withdrawn,
		muniment.pack_sums, muniment.pack_sums_copied
	USING tenant_id = 'tnt_…' TO analyst_tnt;

-- Nothing else: no private parts, no quarantined records, no positions.
GRANT SELECT ON muniment.receipts TO analyst_tnt;
GRANT SELECT ON muniment.metering_hourly TO analyst_tnt;
GRANT SELECT ON muniment.metering_daily TO analyst_tnt;
GRANT SELECT ON muniment.refusals TO analyst_tnt;
GRANT SELECT ON muniment.settlement_lines TO analyst_tnt;
GRANT SELECT ON muniment.events TO analyst_tnt;
GRANT SELECT ON muniment.duplicates TO analyst_tnt;
GRANT SELECT ON muniment.withdrawn TO analyst_tnt;
GRANT SELECT ON muniment.pack_sums TO analyst_tnt;
GRANT SELECT ON muniment.pack_sums_copied TO analyst_tnt;

CREATE USER IF NOT EXISTS ada IDENTIFIED WITH sha256_hash BY '…' DEFAULT ROLE analyst_tnt;

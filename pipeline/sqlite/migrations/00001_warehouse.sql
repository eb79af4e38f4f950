-- +goose Up

-- One row an event: copies of it collapse onto the lowest log position.
-- A position is (generation, partition, position): the partition of a tenant
-- never changes, so its rows are ordered by (generation, position).
-- Times are milliseconds since 1970, UTC. event and private are verbatim bytes.
-- The columns behind private repeat what the event says, for queries; those from
-- receipt_id on are NULL unless type is delivery.recorded.
CREATE TABLE events (
	tenant_id      TEXT    NOT NULL,
	event_id       TEXT    NOT NULL,
	generation     BIGINT  NOT NULL,
	log_partition  BIGINT  NOT NULL,
	position       BIGINT  NOT NULL,
	node           TEXT    NOT NULL,
	epoch          BIGINT  NOT NULL, -- unsigned, as its bit pattern; seq too
	seq            BIGINT  NOT NULL,
	event          BLOB    NOT NULL,
	private        BLOB,
	type           TEXT    NOT NULL,
	at             BIGINT  NOT NULL,
	subject_kind   TEXT    NOT NULL,
	subject_id     TEXT    NOT NULL,
	receipt_id     TEXT,
	right_id       TEXT,
	right_revision BIGINT,
	basis_id       TEXT,
	substrate      TEXT,
	rendered_at    BIGINT,
	issued_at      BIGINT,
	signing_key_id TEXT,
	metered        BOOLEAN,
	reason         TEXT,
	metering_basis TEXT,
	quantity_ms    BIGINT,
	idempotency    TEXT,             -- NULL without a key
	PRIMARY KEY (tenant_id, event_id)
);

-- Pages of events, and the slices that are sealed.
CREATE INDEX events_by_position ON events (tenant_id, generation, position);

-- Whether a delivery repeats another one. Hashes arrive in random order, so each
-- insert dirties another page of this index: the start of the hash is enough to
-- find the few rows to compare, and keeps the pages few.
CREATE INDEX events_by_idempotency ON events (substr(idempotency, 1, 8))
	WHERE idempotency IS NOT NULL;

-- Metering of some hours.
CREATE INDEX deliveries_by_hour ON events (tenant_id, rendered_at)
	WHERE rendered_at IS NOT NULL;

-- Records that can't be loaded, as sealer.AppendRecord encodes them.
CREATE TABLE set_aside (
	generation    BIGINT NOT NULL,
	log_partition BIGINT NOT NULL,
	position      BIGINT NOT NULL,
	tenant_id     TEXT   NOT NULL,   -- empty: names no readable tenant
	event_id      TEXT   NOT NULL,
	reason        TEXT   NOT NULL,
	record        BLOB   NOT NULL,
	PRIMARY KEY (log_partition, generation, position)
);
CREATE INDEX set_aside_by_tenant ON set_aside (tenant_id, generation, position);

-- Where each partition's loader resumes.
CREATE TABLE positions (
	log_partition BIGINT NOT NULL PRIMARY KEY,
	generation    BIGINT NOT NULL,
	position      BIGINT NOT NULL
);

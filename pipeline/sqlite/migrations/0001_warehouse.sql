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
	actor_kind     TEXT    NOT NULL,
	actor_id       TEXT    NOT NULL,
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

-- Pages of events, and the slices that are sealed. A listing that leaves out times or
-- types passes over them within the index, a few hundred nanoseconds each.
CREATE INDEX events_by_position ON events (tenant_id, generation, position, at, type);

-- What is not a delivery is rare, and often what is looked for.
CREATE INDEX audit_by_position ON events (tenant_id, generation, position, at, type)
	WHERE type <> 'delivery.recorded';

-- Everything about one right, key or pack.
CREATE INDEX events_by_subject ON events (tenant_id, subject_id, generation, position, at, type);

-- Whether a delivery repeats another one. Hashes arrive in random order, so each
-- insert dirties another page of this index: the start of the hash is enough to
-- find the few rows to compare, and keeps the pages few.
CREATE INDEX events_by_idempotency ON events (substr(idempotency, 1, 8))
	WHERE idempotency IS NOT NULL;

-- Metering of some hours reads nothing but this index: the rows themselves, with
-- their texts, would be ten times as much.
CREATE INDEX decisions_by_time ON events (tenant_id, rendered_at, generation, position, right_id, substrate, basis_id,
		metering_basis, reason, metered, quantity_ms, idempotency, at)
	WHERE rendered_at IS NOT NULL;

-- Refusal counts of some hours.
CREATE INDEX refusals_by_time ON events (tenant_id, at)
	WHERE type = 'gate.refusals';

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

-- Records set aside that no event has released.
CREATE VIEW held AS
	SELECT * FROM set_aside AS s WHERE NOT EXISTS (
		SELECT 1 FROM events AS r INDEXED BY events_by_subject
		WHERE r.tenant_id IN (s.tenant_id, 'tnt_system') AND r.type = 'record.released' AND r.subject_kind = 'record'
			AND r.subject_id = s.generation || '.' || s.log_partition || '.' || s.position);

-- Events that were rows until their record was set aside and released. They are never
-- rows again.
CREATE TABLE withdrawn (
	tenant_id TEXT NOT NULL,
	event_id  TEXT NOT NULL,
	PRIMARY KEY (tenant_id, event_id)
);

-- Tenants of which nothing is kept.
CREATE TABLE dropped (
	tenant_id TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;

-- Where each partition's loader resumes.
CREATE TABLE positions (
	log_partition BIGINT NOT NULL PRIMARY KEY,
	generation    BIGINT NOT NULL,
	position      BIGINT NOT NULL
);

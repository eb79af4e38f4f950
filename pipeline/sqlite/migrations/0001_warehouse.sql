-- +goose Up

-- Tenants by number, which every row has. A dropped tenant has no other rows.
CREATE TABLE tenants (
	tenant     INTEGER PRIMARY KEY,
	tenant_id  TEXT    NOT NULL UNIQUE,
	deliveries BIGINT  NOT NULL DEFAULT 0, -- how many rows are deliveries
	dropped    BOOLEAN NOT NULL DEFAULT FALSE
);

-- What many events have in common, stored once; an event refers to it by number. The columns from
-- right_id on are NULL unless type is delivery.recorded. digest is of all other columns.
CREATE TABLE common (
	common         INTEGER PRIMARY KEY,
	digest         BLOB    NOT NULL UNIQUE,
	tenant         BIGINT  NOT NULL,
	node           TEXT    NOT NULL,
	type           TEXT    NOT NULL,
	actor_kind     TEXT    NOT NULL,
	actor_id       TEXT    NOT NULL,
	subject_kind   TEXT    NOT NULL,
	subject_id     TEXT    NOT NULL,
	right_id       TEXT,
	basis_id       TEXT,
	substrate      TEXT,
	signing_key_id TEXT,
	metered        BOOLEAN,
	reason         TEXT,
	metering_basis TEXT,
	completion     TEXT
);

-- The sums of one right.
CREATE INDEX common_by_right ON common (tenant, right_id) WHERE right_id IS NOT NULL;

-- Events other than deliveries by their subjects.
CREATE INDEX common_by_subject ON common (tenant, subject_id) WHERE right_id IS NULL;

-- Finds the release of a record.
CREATE INDEX common_by_released ON common (subject_id) WHERE type = 'record.released';

-- The bytes of events other than deliveries, in the order of loading: only the end of the table is
-- written, and scans of many rows don't read them.
CREATE TABLE texts (
	text    INTEGER PRIMARY KEY,
	event   BLOB NOT NULL,
	private BLOB
);

-- The bytes of deliveries: consecutive texts of one tenant, compressed together (see texts.go). The
-- newest blocks of a tenant are open: with the texts that come next they become a larger one.
CREATE TABLE text_blocks (
	text_block INTEGER PRIMARY KEY,
	tenant     BIGINT  NOT NULL,
	first      BIGINT  NOT NULL, -- number of its first text; a tenant's count from 1
	texts      BIGINT  NOT NULL, -- how many it has
	size       BIGINT  NOT NULL, -- bytes of these when it was written, uncompressed
	open       BOOLEAN NOT NULL,
	events     BLOB    NOT NULL,
	private    BLOB              -- NULL: none has a private part
);
CREATE UNIQUE INDEX text_blocks_by_first ON text_blocks (tenant, first);

-- One row an event: copies of it collapse onto the lowest log position. The rows of a
-- tenant stand in the order of their positions, which is that of (generation, position);
-- its partition never changes.
-- Times are milliseconds since 1970, UTC. The columns from right_revision on are NULL unless
-- class is 0. Some columns have a shorter form of another type for the usual value.
CREATE TABLE events (
	tenant            BIGINT NOT NULL,
	generation        BIGINT NOT NULL,
	position          BIGINT NOT NULL,
	log_partition     BIGINT NOT NULL,
	class             BIGINT NOT NULL, -- 0: delivery.recorded, 1: gate.refusals, 2: any other type
	common            BIGINT NOT NULL,
	text              BIGINT NOT NULL, -- class 0: among those of the tenant's deliveries; else in texts
	event_id                 NOT NULL, -- BLOB: the ULID behind evt_; TEXT: all of it
	epoch             BIGINT NOT NULL, -- unsigned, as its bit pattern; seq too
	seq               BIGINT NOT NULL,
	at                BIGINT NOT NULL,
	right_revision    BIGINT,
	receipt_id        TEXT,            -- NULL: rcp_ and the ULID of event_id
	rendered_at       BIGINT,
	issued_at         BIGINT,          -- NULL: at
	quantity_ms       BIGINT,
	duplicate         BOOLEAN,         -- whether the event stands in duplicates
	dedup_key,                         -- BLOB: an idempotency hash or, longer, the identity of a row, its hash before its day; TEXT: as a hash is spelt, where it is none; NULL without both
	impressions       BIGINT,          -- in ten-thousandths; NULL: one if it is metered, none if not
	spatial_anchor_id TEXT,
	spatial_placement_id TEXT,         -- NULL: none, or an empty one
	correlation_id    TEXT,
	PRIMARY KEY (tenant, generation, position, log_partition)
) WITHOUT ROWID;

-- Copies of an event, and one event. ULIDs rise with time: the index grows at its end.
CREATE UNIQUE INDEX events_by_id ON events (event_id, tenant);

-- Metering reads nothing but this index, unless it is of what is behind a position.
CREATE INDEX deliveries_by_time ON events (tenant, rendered_at, common, quantity_ms, impressions, duplicate) WHERE class = 0;

-- Events other than deliveries are rare, and often listed.
CREATE INDEX audit_by_position ON events (tenant, generation, position, at, common) WHERE class > 0;
CREATE INDEX audit_by_common ON events (common) WHERE class > 0;

-- Refusal counts of some hours.
CREATE INDEX refusals_by_time ON events (tenant, at) WHERE class = 1;

-- The deliveries that repeat another, and the lowest that each repeats, as it was decided
-- when they were loaded.
CREATE TABLE duplicates (
	tenant           BIGINT NOT NULL,
	generation       BIGINT NOT NULL,
	position         BIGINT NOT NULL,
	log_partition    BIGINT NOT NULL,
	first_generation BIGINT NOT NULL,
	first_position   BIGINT NOT NULL,
	first_partition  BIGINT NOT NULL,
	PRIMARY KEY (tenant, generation, position, log_partition)
) WITHOUT ROWID;

-- Digests are random: each insert into one large index of them would write another page. So
-- they are in spans of some 100,000 rows, in the order of loading, and only pages of the last
-- span are written. latest is the time of its youngest event with an
-- idempotency hash; first_day and last_day are the days, since 1970, that its identities are of,
-- and dayless says whether some have no day.
CREATE TABLE spans (
	span      INTEGER PRIMARY KEY,
	rows      BIGINT  NOT NULL,
	latest    BIGINT  NOT NULL,
	first_day BIGINT  NOT NULL,
	last_day  BIGINT  NOT NULL, -- before first_day: there are none
	dayless   BOOLEAN NOT NULL
);

-- Whether an idempotency hash or an identity was there before: the start of a digest of it,
-- and the row. A span whose events are all too old, or of other days, isn't read.
CREATE TABLE keys (
	span          BIGINT NOT NULL,
	tenant        BIGINT NOT NULL,
	hash          BIGINT NOT NULL,
	generation    BIGINT NOT NULL,
	position      BIGINT NOT NULL,
	log_partition BIGINT NOT NULL,
	PRIMARY KEY (span, tenant, hash, generation, position, log_partition)
) WITHOUT ROWID;

-- Which blocks, of 512 positions of the log, have a value as actor, kind of actor, subject, right,
-- anchor, correlation or keyed hash of the person that a private part names. hash is the start of the
-- value's digest. Many events of a block need one row. A mark may outlive the row that it was made for.
CREATE TABLE search_marks (
	span       BIGINT NOT NULL,
	tenant     BIGINT NOT NULL,
	hash       BIGINT NOT NULL,
	generation BIGINT NOT NULL,
	block      BIGINT NOT NULL,
	PRIMARY KEY (span, tenant, hash, generation, block)
) WITHOUT ROWID;

-- The earliest and latest times of a block's events, and of renderedAt. The range may be too wide
-- after a row was deleted.
CREATE TABLE search_times (
	tenant         BIGINT NOT NULL,
	generation     BIGINT NOT NULL,
	block          BIGINT NOT NULL,
	earliest       BIGINT NOT NULL,
	latest         BIGINT NOT NULL,
	rendered_first BIGINT NOT NULL,
	rendered_last  BIGINT NOT NULL,
	PRIMARY KEY (tenant, generation, block)
) WITHOUT ROWID;

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

-- Quarantined records that no event has released.
CREATE VIEW held AS
	SELECT * FROM set_aside AS s WHERE NOT EXISTS (
		SELECT 1 FROM common AS c INDEXED BY common_by_released
			CROSS JOIN tenants AS t ON t.tenant = c.tenant
			CROSS JOIN events AS r INDEXED BY audit_by_common ON r.common = c.common AND r.class > 0
		WHERE c.type = 'record.released' AND c.subject_kind = 'record'
			AND c.subject_id = s.generation || '.' || s.log_partition || '.' || s.position
			AND t.tenant_id IN (s.tenant_id, 'tnt_system'));

-- Retracted events: they were rows until their record was quarantined and released, and are
-- never rows again. event_id is as in events.
CREATE TABLE withdrawn (
	event_id        NOT NULL,
	tenant   BIGINT NOT NULL,
	PRIMARY KEY (event_id, tenant)
) WITHOUT ROWID;

-- Where each partition's loader resumes, and the log's hash of all before that.
CREATE TABLE positions (
	log_partition BIGINT NOT NULL PRIMARY KEY,
	generation    BIGINT NOT NULL,
	position      BIGINT NOT NULL,
	chain         BLOB
);

-- Erased persons (pipeline.Tombstone), and the key of their hashes.
CREATE TABLE subject_key (
	key BLOB NOT NULL
);
CREATE TABLE tombstones (
	tenant_id    TEXT   NOT NULL,
	subject_hash TEXT   NOT NULL,
	until        BIGINT NOT NULL, -- of the youngest
	PRIMARY KEY (tenant_id, subject_hash)
) WITHOUT ROWID;

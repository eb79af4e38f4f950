-- +goose NO TRANSACTION
-- +goose Up

-- How to read this file. A statement may run again after a crash, so each one says
-- IF NOT EXISTS. On a cluster every engine becomes its Replicated form and every
-- statement runs ON CLUSTER (see render in migrate.go).
--
-- A position is (generation, log_partition, position). place is the same as one
-- rising number, version as one falling number: of the copies of an event the
-- lowest place, which is the highest version, stays. A table's partitions are months
-- of the event's own time, which all copies share, so copies always meet.
--
-- Inserted and merged parts are synced, and so are their folders: old parts may be
-- deleted as soon as a merge is done.

-- One row an event. event is verbatim. The columns behind it repeat what the event
-- says, for queries; those from receipt_id on are empty unless type is
-- delivery.recorded. Event ids begin with the event's time, so within a tenant the
-- rows are nearly in the order of their places and times: the minmax indexes are
-- what makes a page or an hour cheap. Those of ids find what an event or a receipt is
-- searched by; each takes less than a microsecond a row (bench/README.md).
--
-- A month that nothing came for in a day is merged into one part, unless that would be larger than
-- the server's bound (150 GB): FINAL has nothing to do in it.
CREATE TABLE IF NOT EXISTS events (
	tenant_id      String,
	event_id       String,
	generation     UInt32,
	log_partition  Int32,
	position       Int64 CODEC(Delta, LZ4),
	node           LowCardinality(String),
	epoch          UInt64,
	seq            UInt64 CODEC(Delta, LZ4),
	event          String CODEC(ZSTD),
	type           LowCardinality(String),
	at             DateTime64(3, 'UTC') CODEC(Delta, LZ4),
	actor_kind     LowCardinality(String),
	actor_id       String,
	subject_kind   LowCardinality(String),
	subject_id     String,
	receipt_id     String,
	right_id       LowCardinality(String),
	right_revision Int64,
	basis_id       LowCardinality(String),
	substrate      LowCardinality(String),
	rendered_at    DateTime64(3, 'UTC') CODEC(Delta, LZ4),
	issued_at      DateTime64(3, 'UTC') CODEC(Delta, LZ4),
	signing_key_id LowCardinality(String),
	metered        Bool,
	reason         LowCardinality(String),
	metering_basis LowCardinality(String),
	quantity_ms    Int64,
	idempotency    String,             -- empty without a key
	row_hash       String,             -- of a row's identity; empty without one
	row_day        LowCardinality(String), -- of that identity; empty for a row with an id of its own
	impressions    Int64,              -- in ten-thousandths; 0 unless metered
	completion     LowCardinality(String),
	spatial_anchor_id String,
	spatial_placement_id String,       -- empty: none, or an empty one
	correlation_id    String,
	version        UInt128 MATERIALIZED bitNot(bitShiftLeft(toUInt128(generation), 64) + toUInt128(position)),
	place          UInt128 ALIAS bitNot(version),
	line           UInt64 MATERIALIZED sipHash64(right_id, substrate, basis_id, metering_basis, reason, completion), -- sums group by it: by six texts takes twice as long
	INDEX by_version version TYPE minmax GRANULARITY 1,
	INDEX by_at at TYPE minmax GRANULARITY 1,
	INDEX by_rendered_at rendered_at TYPE minmax GRANULARITY 1,
	INDEX by_type type TYPE set(100) GRANULARITY 1,
	INDEX by_actor actor_id TYPE bloom_filter GRANULARITY 4,
	INDEX by_subject subject_id TYPE bloom_filter GRANULARITY 4,
	INDEX by_right right_id TYPE bloom_filter GRANULARITY 4,
	INDEX by_anchor spatial_anchor_id TYPE bloom_filter GRANULARITY 4,
	INDEX by_correlation correlation_id TYPE bloom_filter GRANULARITY 4,
	PROJECTION ends (SELECT tenant_id, min(version) GROUP BY tenant_id) -- how far each tenant's events reach
) ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(at)
ORDER BY (tenant_id, event_id)
SETTINGS index_granularity = 1024, deduplicate_merge_projection_mode = 'rebuild', lightweight_mutation_projection_mode = 'rebuild',
	min_age_to_force_merge_seconds = 86400, min_age_to_force_merge_on_partition_only = 1, enable_max_bytes_limit_for_min_age_to_force_merge = 1,
	fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- The private part of each event that has one. To erase one is to delete its row
-- here, after a copy without the person was inserted, if it names others; the event, which
-- was hashed and signed, is not changed. Written before the event: a visible event has its
-- private part. Parts with deleted rows are removed at once.
CREATE TABLE IF NOT EXISTS private_parts (
	tenant_id      String,
	event_id       String,
	generation     UInt32,
	position       Int64,
	at             DateTime64(3, 'UTC') CODEC(Delta, LZ4),
	subject_hashes Array(String),    -- of the persons that it names, and of its notes
	private        String CODEC(ZSTD),
	-- Of copies the one with the fewest of them counts: the others have been erased.
	version        UInt128 MATERIALIZED bitNot(bitShiftLeft(toUInt128(length(subject_hashes)), 96) + bitShiftLeft(toUInt128(generation), 64) + toUInt128(position)),
	INDEX by_subject subject_hashes TYPE bloom_filter GRANULARITY 4
) ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(at)
ORDER BY (tenant_id, event_id)
SETTINGS index_granularity = 1024, old_parts_lifetime = 0, cleanup_delay_period = 1, max_cleanup_delay_period = 1, cleanup_delay_period_random_add = 0,
	fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- Deliveries by a hash of their idempotency key, to find duplicates; a look-up reads the
-- days from the one before on. Written before the event: a visible event has its key here, unless its day was dropped.
CREATE TABLE IF NOT EXISTS idempotency_keys (
	tenant_id     String,
	idempotency   String,
	event_id      String,
	generation    UInt32,
	log_partition Int32,
	position      Int64,
	at            DateTime64(3, 'UTC') CODEC(Delta, LZ4),
	key           UInt64 MATERIALIZED xxHash64(idempotency),
	version       UInt128 MATERIALIZED bitNot(bitShiftLeft(toUInt128(generation), 64) + toUInt128(position))
) ENGINE = ReplacingMergeTree(version)
PARTITION BY toDate(at)
PRIMARY KEY key
ORDER BY (key, tenant_id, event_id)
SETTINGS index_granularity = 128, min_compress_block_size = 8192, -- it is asked for thousands of keys that lie apart
	fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- Keys of earlier days are dropped: a look-up that goes back so far reads events, too. Written before they are.
CREATE TABLE IF NOT EXISTS keys_dropped (
	before Date
) ENGINE = ReplacingMergeTree
ORDER BY before
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- Deliveries by their rows' identities, which make duplicates however old they are. So the
-- table has no partitions: a look-up reads every part, and merges leave few of them. Identities
-- of a day are stored together; those without one are in the order of their hashes, and a
-- process that starts reads all of its log partition. Written before the event.
CREATE TABLE IF NOT EXISTS row_identities (
	tenant_id     String,
	row_hash      String,
	row_day       LowCardinality(String),
	event_id      String,
	generation    UInt32,
	log_partition Int32,
	position      Int64,
	at            DateTime64(3, 'UTC') CODEC(Delta, LZ4),
	key           UInt64 MATERIALIZED xxHash64(row_hash),
	version       UInt128 MATERIALIZED bitNot(bitShiftLeft(toUInt128(generation), 64) + toUInt128(position)),
	INDEX by_log_partition log_partition TYPE minmax GRANULARITY 16
) ENGINE = ReplacingMergeTree(version)
PRIMARY KEY (tenant_id, row_day, key)
ORDER BY (tenant_id, row_day, key, event_id)
SETTINGS index_granularity = 128, min_compress_block_size = 8192, -- as idempotency_keys
	fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- Duplicates, and the first event that makes each one: decided when it is loaded, and
-- written before the event. If the first event is retracted the decision is void; if there is
-- another decision, its first event is at a higher place.
CREATE TABLE IF NOT EXISTS duplicates (
	tenant_id        String,
	event_id         String,
	generation       UInt32,
	log_partition    Int32,
	position         Int64,
	first_event_id   String,
	first_generation UInt32,
	first_position   Int64,
	first_place      UInt128 MATERIALIZED bitShiftLeft(toUInt128(first_generation), 64) + toUInt128(first_position)
) ENGINE = ReplacingMergeTree(first_place)
ORDER BY (tenant_id, generation, position)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- Records that can't be loaded, as sealer.AppendRecord encodes them. tenant_id is
-- empty where the record names no readable one.
CREATE TABLE IF NOT EXISTS set_aside (
	log_partition Int32,
	generation    UInt32,
	position      Int64,
	tenant_id     String,
	event_id      String,
	reason        String,
	record        String
) ENGINE = ReplacingMergeTree
PARTITION BY log_partition
ORDER BY (log_partition, generation, position)
SETTINGS old_parts_lifetime = 0, cleanup_delay_period = 1, max_cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- Where each partition's loader resumes: the highest place. Written last.
CREATE TABLE IF NOT EXISTS positions (
	log_partition Int32,
	generation    UInt32,
	position      Int64,
	place         UInt128 MATERIALIZED bitShiftLeft(toUInt128(generation), 64) + toUInt128(position)
) ENGINE = ReplacingMergeTree(place)
ORDER BY log_partition
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- Retracted events: they were rows until their record was quarantined and released. They are
-- deleted from the other tables, and never inserted again. generation and position are where
-- the event stood.
CREATE TABLE IF NOT EXISTS withdrawn (
	tenant_id     String,
	event_id      String,
	generation    UInt32,
	log_partition Int32,
	position      Int64,
	idempotency   String, -- as in events, like what follows
	row_hash      String,
	row_day       String
) ENGINE = ReplacingMergeTree
ORDER BY (tenant_id, event_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- Erased persons (pipeline.Tombstone): a person's youngest tombstone stays. done is set once
-- nothing of the person is left of what was loaded before.
CREATE TABLE IF NOT EXISTS tombstones (
	tenant_id    String,
	subject_hash String,
	until        DateTime64(3, 'UTC'),
	done         Bool,
	version      UInt64 MATERIALIZED 2 * toUInt64(toUnixTimestamp64Milli(until)) + done
) ENGINE = ReplacingMergeTree(version)
ORDER BY (tenant_id, subject_hash)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- The key of those hashes: one row. It is written after the first tombstones, so with it these
-- are complete.
CREATE TABLE IF NOT EXISTS subject_key (
	key String
) ENGINE = ReplacingMergeTree
ORDER BY tuple()
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- What the deliveries of sealed packs add up to, by hour of rendered_at: a copy of what control counted of
-- the packs' entries, for metering_hourly. A line counts once pack_sums_copied says that its copy has it.
-- generation and position are those of the pack's last entry, line numbers the pack's lines of an hour.
CREATE TABLE IF NOT EXISTS pack_sums (
	tenant_id     String,
	copy          UInt64,
	hour          DateTime64(3, 'UTC') CODEC(Delta, LZ4),
	generation    UInt32,
	position      Int64 CODEC(Delta, LZ4),
	line          UInt32,
	right_id      LowCardinality(String),
	substrate     LowCardinality(String),
	basis_id      LowCardinality(String),
	metering_basis LowCardinality(String),
	reason        LowCardinality(String),
	receipts      Int64,
	quantity_ms   Int64,
	impressions   Int64 -- in ten-thousandths
) ENGINE = ReplacingMergeTree
ORDER BY (tenant_id, copy, hour, generation, position, line)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

-- How far that copy goes: it has the lines of every pack of the tenant up to pack_id, whose last entry is at
-- the position; none if pack_id is empty. Written after the lines. Of a tenant's rows the one with the newest
-- copy counts, and of these the one that goes farthest. A copy is given up for a newer one where its packs may
-- not be those of the tenant any more, or their sums were mended; its lines are deleted then. state names the
-- state of control's database that it is of.
CREATE TABLE IF NOT EXISTS pack_sums_copied (
	tenant_id     String,
	copy          UInt64,
	generation    UInt32,
	position      Int64,
	pack_id       String,
	state         String,
	version       UInt256 MATERIALIZED bitShiftLeft(toUInt256(copy), 128) + bitShiftLeft(toUInt256(generation), 64) + toUInt256(position) + (pack_id != '')
) ENGINE = ReplacingMergeTree(version)
ORDER BY tenant_id
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

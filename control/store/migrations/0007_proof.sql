-- +goose Up

-- The head of a tenant's Merkle log: what the next pack is built on. It moves by
-- compare-and-set on sequence, in the transaction that adds the pack.
CREATE TABLE proof_heads (
    tenant_id TEXT   NOT NULL PRIMARY KEY,
    sequence  BIGINT NOT NULL, -- how many packs were sealed
    pack_id   TEXT   NOT NULL, -- the newest of them
    tree_size BIGINT NOT NULL,
    root_hash TEXT   NOT NULL, -- base64url
    hashes    TEXT   NOT NULL, -- compact range of the tree, JSON array of base64url
    position  TEXT   NOT NULL, -- of the last sealed entry in the event log
    mends     BIGINT NOT NULL DEFAULT 0 -- how often what is stored of the packs' sums, or merged of it, was replaced
);

-- Every root that was or may have been signed. A row is written before anything
-- is signed and never changes, so no log signs two roots of one size.
CREATE TABLE proof_roots (
    tenant_id   TEXT   NOT NULL,
    tree_size   BIGINT NOT NULL,
    root_hash   TEXT   NOT NULL, -- base64url
    reserved_at BIGINT NOT NULL, -- milliseconds
    PRIMARY KEY (tenant_id, tree_size)
);

CREATE TABLE proof_packs (
    pack_id         TEXT   NOT NULL PRIMARY KEY,
    tenant_id       TEXT   NOT NULL,
    sequence        BIGINT NOT NULL, -- from 1, without gaps
    revision        BIGINT NOT NULL,
    first_index     BIGINT NOT NULL, -- leaf index of the first entry
    entries         BIGINT NOT NULL,
    root_hash       TEXT   NOT NULL, -- of the first first_index + entries leaves, base64url
    first_position  TEXT   NOT NULL, -- of the first entry in the event log
    last_generation BIGINT NOT NULL, -- of the last entry's position
    last_offset     BIGINT NOT NULL,
    sealed_at       BIGINT NOT NULL, -- milliseconds
    signing_key_id  TEXT   NOT NULL,
    bytes           BIGINT NOT NULL, -- of the pack's canonical lines
    sha256          TEXT   NOT NULL, -- of the same, base64url
    file_bytes      BIGINT NOT NULL, -- of the pack's file, where they are compressed
    file_sha256     TEXT   NOT NULL,
    duplicates      BIGINT NOT NULL, -- what the header lists, counted: it may be long
    rated           BIGINT NOT NULL,
    unrated         BIGINT NOT NULL,
    header          TEXT   NOT NULL, -- verbatim, as the file's first line has it
    UNIQUE (tenant_id, sequence)
);
CREATE INDEX proof_packs_by_position ON proof_packs (tenant_id, last_generation, last_offset);
CREATE UNIQUE INDEX proof_packs_by_leaf ON proof_packs (tenant_id, first_index);

-- What the deliveries of packs add up to, by day of renderedAt in UTC (see package sums). A row is
-- written in the transaction that adds its pack, and never changes.
CREATE TABLE proof_sums (
    tenant_id TEXT   NOT NULL,
    day       BIGINT NOT NULL, -- since 1970
    sequence  BIGINT NOT NULL, -- of the pack
    hours     BYTEA  NOT NULL, -- lines by hour
    whole     BYTEA  NOT NULL, -- lines of the day
    PRIMARY KEY (tenant_id, day, sequence)
);

-- The same of runs of 16 and of 256 packs, by day alone: a cache, so that an answer about years reads few
-- rows. A run counts only once proof_merges says that it is merged.
CREATE TABLE proof_merged (
    tenant_id TEXT   NOT NULL,
    packs     BIGINT NOT NULL, -- of the run
    day       BIGINT NOT NULL,
    sequence  BIGINT NOT NULL, -- of the run's last pack
    whole     BYTEA  NOT NULL,
    PRIMARY KEY (tenant_id, packs, day, sequence)
);

-- How far the packs of a tenant are merged into runs of one length: all up to sequence.
CREATE TABLE proof_merges (
    tenant_id TEXT   NOT NULL,
    packs     BIGINT NOT NULL,
    sequence  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, packs)
);

-- +goose Up

-- vendor_key names tenant, vendor, id_type and vendor_id in the feed: a hash. The windows of
-- one vendor_key don't overlap; one that was retired before it began is empty.
CREATE TABLE mappings (
    mapping_id           TEXT   PRIMARY KEY,
    tenant_id            TEXT   NOT NULL REFERENCES tenants (tenant_id),
    vendor_key           TEXT   NOT NULL,
    vendor               TEXT   NOT NULL,
    id_type              TEXT   NOT NULL,
    vendor_id            TEXT   NOT NULL,
    right_id             TEXT   NOT NULL REFERENCES rights (right_id),
    spatial_anchor_id    TEXT   NOT NULL,
    spatial_placement_id TEXT,
    effective_from       BIGINT NOT NULL,
    effective_until      BIGINT,
    state                TEXT   NOT NULL,
    created_at           BIGINT NOT NULL,
    updated_at           BIGINT NOT NULL,
    revision             BIGINT NOT NULL
);
CREATE UNIQUE INDEX mappings_in_force ON mappings (vendor_key, effective_from) WHERE effective_until IS NULL OR effective_until > effective_from;
CREATE INDEX mappings_by_tenant ON mappings (tenant_id, mapping_id);
CREATE INDEX mappings_by_vendor ON mappings (tenant_id, vendor, mapping_id);
CREATE INDEX mappings_by_type ON mappings (tenant_id, id_type, mapping_id);
CREATE INDEX mappings_by_vendor_id ON mappings (tenant_id, vendor_id, mapping_id);
CREATE INDEX mappings_by_right ON mappings (right_id, tenant_id, mapping_id);
CREATE INDEX mappings_by_state ON mappings (tenant_id, state, mapping_id);

-- How many mappings there are of each sort.
CREATE TABLE mapping_totals (
    tenant_id TEXT   NOT NULL,
    vendor    TEXT   NOT NULL,
    id_type   TEXT   NOT NULL,
    right_id  TEXT   NOT NULL,
    state     TEXT   NOT NULL,
    row_count BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, vendor, id_type, right_id, state)
);

-- Rows of batches that wait: reason is UNMAPPED, for a mapping of the vendor's id, or RIGHT_SUSPENDED, for
-- the end of a suspension of right_id or of a right above it. The vendor's columns are empty for a row
-- without a vendor's id, right_id for one that waits for a mapping. row_text is JSON, without personal data: that is in
-- data_subjects, a list in JSON, and telemetry. content_hash is of all of it. All four are empty once the wait has
-- ended: state is HELD, REPLAYED with a receipt or an error, or EXPIRED. format is that of a player's document.
CREATE TABLE held_rows (
    held_id         TEXT   PRIMARY KEY,
    tenant_id       TEXT   NOT NULL REFERENCES tenants (tenant_id),
    key_id          TEXT   NOT NULL,
    identity_hash   TEXT   NOT NULL,
    identity_day    TEXT   NOT NULL,
    content_hash    TEXT   NOT NULL,
    reason          TEXT   NOT NULL DEFAULT 'UNMAPPED',
    right_id        TEXT   NOT NULL DEFAULT '',
    vendor_key      TEXT   NOT NULL,
    vendor          TEXT   NOT NULL,
    id_type         TEXT   NOT NULL,
    vendor_id       TEXT   NOT NULL,
    played_at       BIGINT NOT NULL,
    row_text        TEXT   NOT NULL,
    data_subjects   TEXT   NOT NULL,
    telemetry       TEXT   NOT NULL,
    format          TEXT   NOT NULL DEFAULT '',
    bytes           BIGINT NOT NULL,
    state           TEXT   NOT NULL,
    receipt_id      TEXT   NOT NULL,
    error           TEXT   NOT NULL,
    expires_at      BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL
);
CREATE UNIQUE INDEX held_rows_by_identity ON held_rows (tenant_id, identity_hash, identity_day);
CREATE INDEX held_rows_by_tenant ON held_rows (tenant_id, held_id);
CREATE INDEX held_rows_by_state ON held_rows (tenant_id, state, held_id);
CREATE INDEX held_rows_by_vendor_id ON held_rows (tenant_id, vendor_id, held_id);
CREATE INDEX held_rows_waiting ON held_rows (vendor_key, played_at) WHERE state = 'HELD' AND reason = 'UNMAPPED';
CREATE INDEX held_rows_suspended ON held_rows (tenant_id, right_id, held_id) WHERE state = 'HELD' AND reason = 'RIGHT_SUSPENDED';
CREATE INDEX held_rows_by_right ON held_rows (tenant_id, right_id, held_id);
CREATE INDEX held_rows_by_reason ON held_rows (tenant_id, reason, held_id);
CREATE INDEX held_rows_by_end ON held_rows (state, expires_at);

-- Plays that players have sent by themselves and that were rejected, until they are dismissed.
-- content_hash is of all that was said of it. row_text is the play as a row, or else play_text what the player said.
CREATE TABLE rejected_plays (
    rejected_id  TEXT   PRIMARY KEY,
    tenant_id    TEXT   NOT NULL REFERENCES tenants (tenant_id),
    key_id       TEXT   NOT NULL,
    format       TEXT   NOT NULL,
    content_hash TEXT   NOT NULL,
    row_text     TEXT   NOT NULL,
    play_text    TEXT   NOT NULL,
    error        TEXT   NOT NULL,
    bytes        BIGINT NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX rejected_plays_by_content ON rejected_plays (tenant_id, content_hash);
CREATE INDEX rejected_plays_by_tenant ON rejected_plays (tenant_id, rejected_id);

-- Vendors' ids of which rows in state HELD have got a mapping, and perhaps of some that have not:
-- the delivery of the rows reads no others.
CREATE TABLE held_mapped (
    tenant_id  TEXT NOT NULL,
    vendor_key TEXT NOT NULL,
    PRIMARY KEY (tenant_id, vendor_key)
);

-- The size of a tenant's rows in state HELD. Making a mapping or holding a row locks this row to
-- itself until the commit, so that one of the two sees the other.
CREATE TABLE held_usage (
    tenant_id TEXT   PRIMARY KEY,
    row_count BIGINT NOT NULL,
    bytes     BIGINT NOT NULL
);

-- +goose Up

-- Counters that only rise. 'revision' is the one revision counter: a change that takes a number
-- locks its row until the commit, so commit order is revision order. 'outbox' numbers the audit
-- events of the newest epoch.
CREATE TABLE counters (
    name  TEXT   PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO counters (name, value) VALUES ('revision', 0), ('outbox', 0);

-- The incarnations of this database, newest last. A restore adds one. A promotion of a standby that
-- lost nothing adds a row with the same id; promoted_at is then the newest revision that it had.
CREATE TABLE incarnations (
    epoch       BIGINT PRIMARY KEY,
    id          TEXT   NOT NULL,
    started_at  BIGINT NOT NULL,
    server      TEXT   NOT NULL, -- PostgreSQL's system identifier and timeline; empty for SQLite
    promoted_at BIGINT NOT NULL
);

-- Audit events on their way to the log, in the order they must get there.
CREATE TABLE outbox (
    epoch     BIGINT NOT NULL,
    seq       BIGINT NOT NULL,
    tenant_id TEXT   NOT NULL,
    event_id  TEXT   NOT NULL UNIQUE,
    event     TEXT   NOT NULL,
    private   TEXT   NOT NULL, -- empty: none
    PRIMARY KEY (epoch, seq)
);
CREATE INDEX outbox_by_tenant ON outbox (tenant_id, epoch, seq);

-- The newest snapshot of every record of a kind that nodes get. stopped is 1 once it took
-- something away, as a suspension does, for good: a node may never forget such an entry.
CREATE TABLE feed (
    kind     TEXT   NOT NULL,
    id       TEXT   NOT NULL,
    revision BIGINT NOT NULL,
    stopped  BIGINT NOT NULL,
    snapshot TEXT   NOT NULL,
    PRIMARY KEY (id, kind)
);
CREATE INDEX feed_by_revision ON feed (revision, kind, id);
CREATE INDEX feed_stopped ON feed (revision, kind, id) WHERE stopped = 1;

-- The newest log position known to be durable, of each partition: log is partition 0,
-- log/1 is partition 1. stops and stops/1 are where the last start has ended to hold the
-- database against what was stopped.
CREATE TABLE high_water (
    name     TEXT PRIMARY KEY,
    position TEXT NOT NULL
);

-- What requests with an Idempotency-Key came to, for a day. key_hash and request_hash are keyed
-- hashes, and answer is encrypted: this table alone reveals neither the keys nor the requests and
-- answers. state is RUNNING or DONE; from the change that the request makes on it is DONE, and has
-- an answer once that was made as well. token is that of the attempt to which the key belongs.
CREATE TABLE idempotency (
    tenant_id    TEXT   NOT NULL,
    caller_id    TEXT   NOT NULL,
    key_hash     TEXT   NOT NULL,
    request_hash TEXT   NOT NULL,
    token        TEXT   NOT NULL,
    state        TEXT   NOT NULL,
    lease_until  BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    answer       TEXT,
    PRIMARY KEY (tenant_id, key_hash)
);
CREATE INDEX idempotency_by_end ON idempotency (expires_at);
CREATE INDEX idempotency_by_caller ON idempotency (tenant_id, caller_id, expires_at);

-- How many rows a tenant's callers have above, and the bytes of their answers: both are bounded.
CREATE TABLE idempotency_usage (
    tenant_id TEXT   NOT NULL,
    caller_id TEXT   NOT NULL,
    row_count BIGINT NOT NULL,
    bytes     BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, caller_id)
);

-- What is written to find out whether the database can be written.
CREATE TABLE probe (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    filler   TEXT    NOT NULL
);

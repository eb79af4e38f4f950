-- +goose Up

-- The tenants of visitors of the sandbox, and the key that acts for each. Its secret is not stored.
-- seen_at is when it was used last, to within a minute.
CREATE TABLE sandbox_tenants (
    tenant_id TEXT   PRIMARY KEY REFERENCES tenants (tenant_id),
    key_id    TEXT   NOT NULL REFERENCES api_keys (key_id),
    seen_at   BIGINT NOT NULL
);
CREATE INDEX sandbox_tenants_by_use ON sandbox_tenants (seen_at, tenant_id);
CREATE INDEX sandbox_tenants_by_key ON sandbox_tenants (key_id);

-- What cookies are signed with, in hex: one row.
CREATE TABLE sandbox_secret (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    secret     TEXT    NOT NULL,
    created_at BIGINT  NOT NULL
);

-- What the sandbox has accepted of an address within the last hour, where several
-- processes count together: moments in milliseconds, oldest first, separated by spaces.
CREATE TABLE sandbox_windows (
    address  TEXT   PRIMARY KEY,
    accepted TEXT   NOT NULL,
    last_at  BIGINT NOT NULL
);
CREATE INDEX sandbox_windows_by_time ON sandbox_windows (last_at);

-- How many events requests of an address put into the log within an hour, until its retention
-- is over.
CREATE TABLE sandbox_events (
    address TEXT   NOT NULL, -- a keyed hash of it
    hour    BIGINT NOT NULL, -- its beginning, in milliseconds
    events  BIGINT NOT NULL,
    PRIMARY KEY (address, hour)
);

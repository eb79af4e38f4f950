-- +goose Up

-- The tenants of visitors of the sandbox, and the key that acts for each. Its secret is
-- nowhere. seen_at is when it was used last, to within a minute.
CREATE TABLE sandbox_tenants (
    tenant_id TEXT   PRIMARY KEY REFERENCES tenants (tenant_id),
    key_id    TEXT   NOT NULL REFERENCES api_keys (key_id),
    seen_at   BIGINT NOT NULL
);
CREATE INDEX sandbox_tenants_by_use ON sandbox_tenants (seen_at, tenant_id);

-- What cookies are signed with, in hex: one row.
CREATE TABLE sandbox_secret (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    secret     TEXT    NOT NULL,
    created_at BIGINT  NOT NULL
);

-- +goose Down
DROP TABLE sandbox_secret;
DROP TABLE sandbox_tenants;

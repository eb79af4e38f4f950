-- +goose Up

-- sandbox is 1 for a tenant of the sandbox, which it is for good: keys of the sandbox
-- alone sign for it.
CREATE TABLE tenants (
    tenant_id  TEXT    PRIMARY KEY,
    org_id     TEXT    NOT NULL,
    sandbox    INTEGER NOT NULL DEFAULT 0,
    time_zone  TEXT    NOT NULL DEFAULT 'UTC',
    created_at BIGINT  NOT NULL,
    updated_at BIGINT  NOT NULL,
    revision   BIGINT  NOT NULL
);
CREATE INDEX tenants_by_sandbox ON tenants (sandbox, tenant_id);

-- email is personal data: it is only here, never in an event.
CREATE TABLE developers (
    developer_id TEXT   PRIMARY KEY,
    tenant_id    TEXT   NOT NULL REFERENCES tenants (tenant_id),
    org_id       TEXT   NOT NULL,
    email        TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    revision     BIGINT NOT NULL
);
CREATE INDEX developers_by_tenant ON developers (tenant_id);

-- secret_hash is the SHA-256 of the key's secret in hex; the secret is not stored. scopes are
-- names, separated by spaces. created_by is the id of the key that made it, or operator or system.
-- successor_key_id is the key that took over in a rotation.
CREATE TABLE api_keys (
    key_id           TEXT   PRIMARY KEY,
    tenant_id        TEXT   NOT NULL REFERENCES tenants (tenant_id),
    developer_id     TEXT   NOT NULL REFERENCES developers (developer_id),
    org_id           TEXT   NOT NULL,
    label            TEXT   NOT NULL,
    prefix           TEXT   NOT NULL,
    secret_hash      TEXT   NOT NULL,
    scopes           TEXT   NOT NULL,
    created_by       TEXT   NOT NULL,
    successor_key_id TEXT,
    expires_at       BIGINT,
    revoked_at       BIGINT,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    revision         BIGINT NOT NULL
);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant_id, key_id);
CREATE INDEX api_keys_by_maker ON api_keys (created_by);
CREATE INDEX api_keys_by_developer ON api_keys (developer_id);

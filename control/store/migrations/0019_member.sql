-- +goose Up

-- Who is signed in to a tenant's console. token_hash is the SHA-256 of the cookie's token in hex; the token is not
-- stored. actor_id is the API key as which the session acts.
CREATE TABLE sessions (
    token_hash   TEXT   PRIMARY KEY,
    tenant_id    TEXT   NOT NULL,
    actor_id     TEXT   NOT NULL,
    signed_in_at BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL
);
CREATE INDEX sessions_by_actor ON sessions (actor_id, signed_in_at);
CREATE INDEX sessions_by_tenant ON sessions (tenant_id);
CREATE INDEX sessions_by_time ON sessions (signed_in_at);
CREATE INDEX sessions_by_use ON sessions (seen_at);

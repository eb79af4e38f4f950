-- +goose Up

-- About how many bytes a tenant of the sandbox takes: in the log, and elsewhere.
ALTER TABLE sandbox_tenants ADD COLUMN log_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sandbox_tenants ADD COLUMN kept_bytes BIGINT NOT NULL DEFAULT 0;

-- What tenants that were dropped within an hour have left in the log, until its
-- retention is over.
CREATE TABLE sandbox_left (
    hour  BIGINT NOT NULL PRIMARY KEY, -- its beginning, in milliseconds
    bytes BIGINT NOT NULL
);

-- +goose Down
DROP TABLE sandbox_left;
ALTER TABLE sandbox_tenants DROP COLUMN kept_bytes;
ALTER TABLE sandbox_tenants DROP COLUMN log_bytes;

-- +goose Up

-- About how many bytes a tenant of the sandbox takes elsewhere than in the log.
ALTER TABLE sandbox_tenants ADD COLUMN kept_bytes BIGINT NOT NULL DEFAULT 0;

-- About how many bytes requests of an address put into the log within an hour, until its
-- retention is over.
CREATE TABLE sandbox_log (
    address TEXT   NOT NULL, -- a keyed hash of it
    hour    BIGINT NOT NULL, -- its beginning, in milliseconds
    bytes   BIGINT NOT NULL,
    PRIMARY KEY (address, hour)
);

-- +goose Down
DROP TABLE sandbox_log;
ALTER TABLE sandbox_tenants DROP COLUMN kept_bytes;

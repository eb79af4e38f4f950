-- +goose Up

-- What requests with an Idempotency-Key came to, for a day. key_hash and request_hash are
-- keyed hashes, and answer is encrypted: whoever reads this table alone learns neither
-- the keys nor what was asked or answered. state is RUNNING or DONE; from the change that
-- the request makes on it is DONE, and has an answer once that was made as well. token
-- is that of the attempt to which the key belongs.
CREATE TABLE idempotency (
    tenant_id    TEXT   NOT NULL,
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

-- How many rows a tenant has above, and the bytes of their answers: both are bounded.
CREATE TABLE idempotency_usage (
    tenant_id TEXT   PRIMARY KEY,
    row_count BIGINT NOT NULL,
    bytes     BIGINT NOT NULL
);

-- +goose Down
DROP TABLE idempotency_usage;
DROP TABLE idempotency;

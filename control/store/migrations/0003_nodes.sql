-- +goose Up

-- epoch counts the starts of a node.
CREATE TABLE nodes (
    node_id    TEXT   PRIMARY KEY,
    epoch      BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    revision   BIGINT NOT NULL
);

-- Every key that ever signed, public halves only; rows are never deleted.
-- delegation is the root's signed note, for keys of purpose directory_signing.
CREATE TABLE signing_keys (
    key_id     TEXT   PRIMARY KEY,
    purpose    TEXT   NOT NULL,
    node_id    TEXT   NOT NULL,
    public_key TEXT   NOT NULL,
    not_before BIGINT NOT NULL,
    not_after  BIGINT,
    revoked_at BIGINT,
    delegation TEXT   NOT NULL,
    revision   BIGINT NOT NULL
);

-- +goose Down
DROP TABLE signing_keys;
DROP TABLE nodes;

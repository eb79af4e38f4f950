-- +goose Up

-- Each lets one node join. Of the secrets only SHA-256 is kept, in hex.
CREATE TABLE invitations (
    invitation_id TEXT   PRIMARY KEY,
    secret_hash   TEXT   NOT NULL,
    expires_at    BIGINT NOT NULL,
    node_id       TEXT   -- that has joined with it
);
CREATE TABLE node_credentials (
    node_id     TEXT PRIMARY KEY REFERENCES nodes (node_id),
    secret_hash TEXT NOT NULL
);

-- +goose Down
DROP TABLE node_credentials;
DROP TABLE invitations;

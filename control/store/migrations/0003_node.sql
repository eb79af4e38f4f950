-- +goose Up

-- epoch counts the starts of a node. leaving_at is when an operator first requested that it be
-- expelled, also if that was refused because the node was busy; 0 if it must leave because another
-- node joined under its name. From then on it gets no other key. expelled_at is when an operator
-- expelled it for good. polled_at is when control last noted, now and then, that it polls.
CREATE TABLE nodes (
    node_id     TEXT   PRIMARY KEY,
    epoch       BIGINT NOT NULL,
    leaving_at  BIGINT,
    expelled_at BIGINT,
    polled_at   BIGINT NOT NULL DEFAULT 0,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    revision    BIGINT NOT NULL
);

-- Every key that ever signed, public halves only; rows are never deleted.
-- delegation is the root's signed note, for keys of purpose directory_signing. leaving is
-- 1 once a key of control is about to be revoked: nothing that it signed is taken any
-- more. retired is 1 once the node has said that nothing that the key signed is under way
-- any more.
CREATE TABLE signing_keys (
    key_id     TEXT   PRIMARY KEY,
    purpose    TEXT   NOT NULL,
    node_id    TEXT   NOT NULL,
    public_key TEXT   NOT NULL,
    not_before BIGINT NOT NULL,
    not_after  BIGINT,
    revoked_at BIGINT,
    delegation TEXT   NOT NULL,
    leaving    BIGINT NOT NULL DEFAULT 0,
    retired    BIGINT NOT NULL DEFAULT 0,
    revision   BIGINT NOT NULL
);

-- Each lets one node join, which signs for purpose. Of the secrets only SHA-256 is kept,
-- in hex.
CREATE TABLE invitations (
    invitation_id TEXT   PRIMARY KEY,
    secret_hash   TEXT   NOT NULL,
    expires_at    BIGINT NOT NULL,
    purpose       TEXT   NOT NULL,
    node_id       TEXT   -- that has joined with it
);
CREATE TABLE node_credentials (
    node_id     TEXT PRIMARY KEY REFERENCES nodes (node_id),
    secret_hash TEXT NOT NULL
);

-- Under which name each node has joined that did so by a certificate, and when. A name is the node's
-- that took it last. It is barred if a node was expelled that has or had it.
CREATE TABLE node_names (
    node_id  TEXT   PRIMARY KEY REFERENCES nodes (node_id),
    name     TEXT   NOT NULL,
    taken_at BIGINT NOT NULL
);
CREATE INDEX node_names_of ON node_names (name, taken_at);

-- How far each node had followed the feed when it last polled one of several control processes, and
-- how many records that it has promised were not in the log yet, but in its spool. beat counts the
-- writes: a process that sees it grow knows that the node has polled, without comparing clocks.
-- epoch is the newest start of the node that has polled: older ones are refused.
-- gone is 1 once a process has seen that the node, which was expelled, holds no lease any more.
CREATE TABLE node_polls (
    node_id TEXT   PRIMARY KEY,
    epoch   BIGINT NOT NULL,
    applied BIGINT NOT NULL,
    spooled BIGINT NOT NULL,
    beat    BIGINT NOT NULL,
    gone    BIGINT NOT NULL DEFAULT 0
);

-- +goose Up

-- When requests with a key were last authenticated, to the minute.
CREATE TABLE key_uses (
    key_id    TEXT   PRIMARY KEY,
    tenant_id TEXT   NOT NULL,
    used_at   BIGINT NOT NULL
);
CREATE INDEX key_uses_by_tenant ON key_uses (tenant_id);

-- Refused requests of the last 24 hours that have key, operation, status, code and cause in common. line is a hash of
-- these, and place is last_at in milliseconds and the line, which lists are ordered by. last_request is the id
-- of the last request. first_at and last_at are minutes. The row without a key is for what is in no other row.
CREATE TABLE refused_requests (
    tenant_id     TEXT    NOT NULL,
    line          TEXT    NOT NULL,
    place         TEXT    NOT NULL,
    key_id        TEXT    NOT NULL,
    operation     TEXT    NOT NULL,
    status        INTEGER NOT NULL,
    code          TEXT    NOT NULL,
    cause         TEXT    NOT NULL,
    request_count BIGINT  NOT NULL,
    first_at      BIGINT  NOT NULL,
    last_at       BIGINT  NOT NULL,
    last_request  TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, line)
);
CREATE INDEX refused_requests_by_place ON refused_requests (tenant_id, place);
CREATE INDEX refused_requests_by_time ON refused_requests (last_at);

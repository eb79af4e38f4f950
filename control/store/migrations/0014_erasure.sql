-- +goose Up

-- The secret under which references to persons are hashed (pipeline.SubjectKey), in hex: one row.
CREATE TABLE subject_key (
    only_row    INTEGER PRIMARY KEY CHECK (only_row = 1),
    subject_key TEXT    NOT NULL
);

-- Who was erased: until is that of the youngest tombstone of a person.
CREATE TABLE tombstones (
    tenant_id    TEXT   NOT NULL,
    subject_hash TEXT   NOT NULL,
    until        BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, subject_hash)
);
CREATE INDEX tombstones_by_time ON tombstones (tenant_id, until);

-- Requests and their results. Nothing here names a person. counts is JSON; certificate is a signed
-- note, NULL until state is COMPLETED. confirmation is the token that has begun it, which begins no
-- other; NULL for one from the log.
CREATE TABLE erasures (
    erasure_id   TEXT   PRIMARY KEY,
    tenant_id    TEXT   NOT NULL REFERENCES tenants (tenant_id),
    subject_hash TEXT   NOT NULL,
    until        BIGINT NOT NULL,
    event_id     TEXT   NOT NULL,
    confirmation TEXT,
    requested_by TEXT   NOT NULL,
    state        TEXT   NOT NULL,
    counts       TEXT   NOT NULL,
    certificate  TEXT,
    completed_at BIGINT,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    revision     BIGINT NOT NULL
);
CREATE INDEX erasures_by_tenant ON erasures (tenant_id, erasure_id);
CREATE UNIQUE INDEX erasures_by_confirmation ON erasures (tenant_id, confirmation);

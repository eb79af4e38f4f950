-- +goose Up

-- Work that may run late or elsewhere (jobs.go). state is WAITING until due_at, then READY;
-- LEASED to the process that has the lease of this number, until due_at; or FAILED, with a
-- code. A job that is done has no row. Jobs of one lane run one after another, and lanes
-- take turns by place. again is 1 once a leased job was queued anew. payload and progress are
-- JSON that holds ids and counts: no secrets, nothing that names a person.
CREATE TABLE jobs (
    job_id     TEXT   PRIMARY KEY,
    kind       TEXT   NOT NULL,
    tenant_id  TEXT   NOT NULL,
    lane       TEXT   NOT NULL,
    unique_key TEXT   NOT NULL,
    payload    TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    place      BIGINT NOT NULL,
    due_at     BIGINT NOT NULL,
    lease      BIGINT NOT NULL,
    attempts   BIGINT NOT NULL,
    again      BIGINT NOT NULL,
    progress   TEXT   NOT NULL,
    code       TEXT   NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX jobs_by_key ON jobs (kind, unique_key) WHERE unique_key <> '' AND state <> 'FAILED';
CREATE UNIQUE INDEX jobs_leased ON jobs (kind, lane) WHERE state = 'LEASED';
CREATE INDEX jobs_by_place ON jobs (kind, state, place, job_id);
CREATE INDEX jobs_by_lane ON jobs (kind, lane, place);
CREATE INDEX jobs_by_time ON jobs (kind, state, due_at);
CREATE INDEX jobs_by_tenant ON jobs (tenant_id, kind);

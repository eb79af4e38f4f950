-- +goose Up

-- DSAR jobs (dsar.go). What may name a person is in data_subject_id, requested_by and
-- request_notes, and in the notes below. collection counts how often collecting has begun:
-- what an earlier one made is of no use. bundle_ended is why the bundle is deleted, or about to be. download_secret signs the links to the bundle. scopes are the
-- requester's, which bound what an export of the tenant has.
CREATE TABLE dsar_jobs (
    job_id            TEXT   PRIMARY KEY,
    tenant_id         TEXT   NOT NULL REFERENCES tenants (tenant_id),
    org_id            TEXT   NOT NULL,
    scopes            TEXT   NOT NULL DEFAULT '[]',
    state             TEXT   NOT NULL,
    kind              TEXT   NOT NULL,
    data_subject_id   TEXT,
    window_start      BIGINT,
    window_end        BIGINT,
    campaign_ids      TEXT   NOT NULL,
    substrates        TEXT   NOT NULL,
    format            TEXT   NOT NULL,
    bom               BOOLEAN DEFAULT FALSE,
    requested_by      TEXT   NOT NULL,
    request_notes     TEXT,
    queued_at         BIGINT,
    collection        BIGINT NOT NULL,
    rows_collected    BIGINT NOT NULL,
    rows_expected     BIGINT NOT NULL,
    bytes_packaged    BIGINT NOT NULL,
    last_heartbeat_at BIGINT,
    worker_id         TEXT,
    bundle_store_key  TEXT,
    bundle_size_bytes BIGINT NOT NULL,
    bundle_sha256     TEXT,
    bundle_expires_at BIGINT,
    bundle_ended      TEXT,
    downloaded_at     BIGINT,
    downloaded_by     TEXT,
    download_secret   TEXT,
    failure_code      TEXT,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    revision          BIGINT NOT NULL
);
CREATE INDEX dsar_jobs_by_tenant ON dsar_jobs (tenant_id, job_id);
CREATE INDEX dsar_jobs_by_state ON dsar_jobs (tenant_id, state, job_id);
CREATE INDEX dsar_jobs_by_end ON dsar_jobs (bundle_expires_at) WHERE bundle_store_key IS NOT NULL;

CREATE TABLE dsar_timeline (
    job_id     TEXT   NOT NULL REFERENCES dsar_jobs (job_id),
    entry      BIGINT NOT NULL,
    tenant_id  TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    actor      TEXT   NOT NULL,
    from_state TEXT, -- NULL: the job was created
    to_state   TEXT   NOT NULL,
    notes      TEXT,
    PRIMARY KEY (job_id, entry)
);

-- +goose Up

-- visitor is 1 for a tenant of the sandbox whose key is given to nobody: it may be dropped.
ALTER TABLE tenants ADD COLUMN visitor INTEGER NOT NULL DEFAULT 0;
UPDATE tenants SET visitor = sandbox;
CREATE INDEX tenants_by_visitor ON tenants (visitor, tenant_id);

-- What strangers have sent, and nobody has looked at yet.
CREATE TABLE access_requests (
    request_id   TEXT   PRIMARY KEY,
    tenant_id    TEXT   NOT NULL,
    email        TEXT   NOT NULL,
    organisation TEXT   NOT NULL,
    purpose      TEXT   NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE INDEX access_requests_by_email ON access_requests (tenant_id, email) WHERE email <> '';

-- Applications for a key of the sandbox. email, organisation and purpose are personal data: they
-- are only here, never in an event. The columns of the mail are those of the newest approval.
CREATE TABLE access_applications (
    application_id      TEXT   PRIMARY KEY,
    tenant_id           TEXT   NOT NULL,
    email               TEXT   NOT NULL,
    organisation        TEXT   NOT NULL,
    purpose             TEXT   NOT NULL,
    state               TEXT   NOT NULL,
    approvals           BIGINT NOT NULL,
    activated_tenant_id TEXT,
    mail_state          TEXT   NOT NULL,
    mail_attempts       BIGINT NOT NULL,
    mail_code           TEXT   NOT NULL,
    mail_detail         TEXT   NOT NULL,
    mail_at             BIGINT,
    created_at          BIGINT NOT NULL,
    updated_at          BIGINT NOT NULL,
    revision            BIGINT NOT NULL
);
CREATE INDEX access_applications_by_tenant ON access_applications (tenant_id, application_id);
CREATE INDEX access_applications_by_state ON access_applications (tenant_id, state, application_id);
CREATE INDEX access_applications_by_email ON access_applications (tenant_id, email) WHERE email <> '';
CREATE INDEX access_applications_by_time ON access_applications (created_at, application_id);

-- The SHA-256, in hex, of each token that a mail may have brought to an applicant.
CREATE TABLE access_tokens (
    token_hash     TEXT   PRIMARY KEY,
    tenant_id      TEXT   NOT NULL,
    application_id TEXT   NOT NULL,
    expires_at     BIGINT NOT NULL
);
CREATE INDEX access_tokens_by_application ON access_tokens (application_id);
CREATE INDEX access_tokens_by_time ON access_tokens (expires_at);

-- +goose Up

-- Who is signed in to a tenant's console. token_hash is the SHA-256 of the cookie's token in hex; the token is not
-- stored. actor_id is the API key or the member as whom the session acts. confirmed_at is when the actor proved who it
-- is: earlier than signed_in_at, where a provider of OpenID Connect had not asked again.
CREATE TABLE sessions (
    token_hash   TEXT   PRIMARY KEY,
    tenant_id    TEXT   NOT NULL,
    actor_id     TEXT   NOT NULL,
    signed_in_at BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL
);
CREATE INDEX sessions_by_actor ON sessions (actor_id, signed_in_at);
CREATE INDEX sessions_by_tenant ON sessions (tenant_id);
CREATE INDEX sessions_by_time ON sessions (signed_in_at);
CREATE INDEX sessions_by_use ON sessions (seen_at);

-- Persons who may sign in. email, name, issuer and subject are personal data: they are only here, never in an event.
-- issuer and subject are who the person is at a provider of OpenID Connect; NULL until the member has signed in by it.
-- bound says that it has: a database that was restored from an older copy may not know as whom.
-- env is the environment of the API keys that the member makes. invited_by is the key or member that did, or operator
-- or system.
CREATE TABLE members (
    member_id    TEXT   PRIMARY KEY,
    tenant_id    TEXT   NOT NULL REFERENCES tenants (tenant_id),
    org_id       TEXT   NOT NULL,
    developer_id TEXT   NOT NULL,
    env          TEXT   NOT NULL,
    email        TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    issuer       TEXT,
    subject      TEXT,
    bound        BOOLEAN NOT NULL,
    role         TEXT   NOT NULL,
    state        TEXT   NOT NULL,
    invited_by   TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    revision     BIGINT NOT NULL
);
CREATE INDEX members_by_tenant ON members (tenant_id, member_id);
CREATE INDEX members_by_state ON members (tenant_id, state, member_id);
CREATE INDEX members_by_email ON members (email, member_id) WHERE email <> '';
CREATE INDEX members_by_subject ON members (subject, member_id) WHERE subject IS NOT NULL;

-- Addresses to which somebody wants a link to sign in mailed, until a job has looked at them.
CREATE TABLE link_requests (
    request_id TEXT   PRIMARY KEY,
    tenant_id  TEXT   NOT NULL,
    email      TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

-- The SHA-256, in hex, of the token of each link that was mailed to a member and was not used yet, and the job that mails it.
CREATE TABLE member_links (
    token_hash TEXT   PRIMARY KEY,
    tenant_id  TEXT   NOT NULL,
    member_id  TEXT   NOT NULL,
    job_id     TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX member_links_by_member ON member_links (member_id);
CREATE INDEX member_links_by_tenant ON member_links (tenant_id);
CREATE INDEX member_links_by_time ON member_links (expires_at);

-- Who has signed in at a provider of OpenID Connect, and has yet to choose of which tenant. token_hash is the SHA-256, in
-- hex, of what the browser's cookie has. A row is deleted once its person has chosen, or after some minutes.
CREATE TABLE member_choices (
    token_hash       TEXT   PRIMARY KEY,
    tenant_id        TEXT   NOT NULL,
    issuer           TEXT   NOT NULL,
    subject          TEXT   NOT NULL,
    email            TEXT   NOT NULL,
    authenticated_at BIGINT NOT NULL,
    expires_at       BIGINT NOT NULL
);
CREATE INDEX member_choices_by_subject ON member_choices (subject);
CREATE INDEX member_choices_by_time ON member_choices (expires_at);

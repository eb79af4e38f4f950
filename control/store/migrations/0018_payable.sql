-- +goose Up

-- The parties on papers that the tenant issues are from here. One row a tenant.
CREATE TABLE issuers (
    issuer_id    TEXT   PRIMARY KEY,
    tenant_id    TEXT   NOT NULL REFERENCES tenants (tenant_id),
    legal_name   TEXT   NOT NULL,
    address      TEXT,
    tax_id       TEXT,
    email        TEXT,
    note         TEXT,
    payment_days BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    revision     BIGINT NOT NULL
);
CREATE UNIQUE INDEX issuers_by_tenant ON issuers (tenant_id);

-- payments, issuer and recipient are JSON. sequence is the place among the tenant's payables.
CREATE TABLE payables (
    payable_id      TEXT    PRIMARY KEY,
    tenant_id       TEXT    NOT NULL REFERENCES tenants (tenant_id),
    statement_id    TEXT    NOT NULL,
    first_id        TEXT    NOT NULL,
    counterparty_id TEXT    NOT NULL,
    number          TEXT    NOT NULL,
    kind            TEXT    NOT NULL,
    corrects        TEXT,
    currency        TEXT    NOT NULL,
    exact           TEXT    NOT NULL,
    net             TEXT    NOT NULL,
    tax_bps         BIGINT  NOT NULL,
    reverse_charge  BOOLEAN NOT NULL,
    tax             TEXT    NOT NULL,
    gross           TEXT    NOT NULL,
    issued_on       TEXT    NOT NULL,
    due_on          TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    paid_amount     TEXT    NOT NULL,
    payments        TEXT    NOT NULL,
    carried         TEXT    NOT NULL,
    sequence        BIGINT  NOT NULL,
    issuer          TEXT    NOT NULL,
    recipient       TEXT    NOT NULL,
    created_at      BIGINT  NOT NULL,
    updated_at      BIGINT  NOT NULL,
    revision        BIGINT  NOT NULL
);
CREATE INDEX payables_by_tenant ON payables (tenant_id, payable_id);
CREATE INDEX payables_by_statement ON payables (tenant_id, statement_id, payable_id);
CREATE INDEX payables_by_chain ON payables (tenant_id, first_id, counterparty_id, sequence);
CREATE INDEX payables_by_counterparty ON payables (tenant_id, counterparty_id, payable_id);
CREATE INDEX payables_by_state ON payables (tenant_id, state, payable_id);
CREATE INDEX payables_by_payee ON payables (tenant_id, counterparty_id, currency, sequence);
CREATE INDEX payables_owed ON payables (tenant_id, counterparty_id, currency) WHERE state = 'DUE';
CREATE INDEX payables_that_are_due ON payables (tenant_id, due_on, sequence) WHERE state = 'DUE';
CREATE UNIQUE INDEX payables_by_number ON payables (tenant_id, number);
CREATE UNIQUE INDEX payables_by_sequence ON payables (tenant_id, sequence);

-- Links by which a payee reads its part of a statement. token_hash is the SHA-256 of the link's token in hex, which is
-- not stored; NULL once the link is revoked.
CREATE TABLE payee_links (
    link_id         TEXT   PRIMARY KEY,
    tenant_id       TEXT   NOT NULL REFERENCES tenants (tenant_id),
    statement_id    TEXT   NOT NULL,
    counterparty_id TEXT   NOT NULL,
    token_hash      TEXT,
    state           TEXT   NOT NULL,
    expires_at      BIGINT NOT NULL,
    created_by      TEXT   NOT NULL,
    revoked_at      BIGINT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    revision        BIGINT NOT NULL
);
CREATE UNIQUE INDEX payee_links_by_token ON payee_links (token_hash);
CREATE INDEX payee_links_by_tenant ON payee_links (tenant_id, link_id);
CREATE INDEX payee_links_by_statement ON payee_links (tenant_id, statement_id, link_id);
CREATE INDEX payee_links_by_payee ON payee_links (tenant_id, counterparty_id, statement_id);

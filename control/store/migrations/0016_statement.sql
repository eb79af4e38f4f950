-- +goose Up

-- document is the canonical text of the statement, and once it is issued the line of its signature.
-- corrects is the first statement of the period, and correction the place behind it. sequence is the place
-- among all that the tenant has issued, 0 until it is. premises are hashes of what a draft rests on, since since_at.
CREATE TABLE statements (
    statement_id    TEXT   PRIMARY KEY,
    tenant_id       TEXT   NOT NULL REFERENCES tenants (tenant_id),
    from_at         BIGINT NOT NULL,
    to_at           BIGINT NOT NULL,
    period          TEXT,
    time_zone       TEXT   NOT NULL,
    currency        TEXT   NOT NULL,
    counterparty_id TEXT,
    state           TEXT   NOT NULL,
    total           TEXT   NOT NULL,
    held_amount     TEXT   NOT NULL,
    receipts        BIGINT NOT NULL,
    as_of           TEXT   NOT NULL,
    pack_id         TEXT   NOT NULL,
    tree_size       BIGINT NOT NULL,
    root_hash       TEXT   NOT NULL,
    number          TEXT,
    paid_amount     TEXT   NOT NULL,
    due_amount      TEXT,
    sequence        BIGINT NOT NULL,
    sha256          TEXT,
    reference       TEXT,
    issued_at       BIGINT,
    settled_at      BIGINT,
    corrects        TEXT,
    difference      TEXT,
    void_reason     TEXT,
    correction      BIGINT NOT NULL,
    document        TEXT   NOT NULL,
    since_at        BIGINT,
    premises        TEXT   NOT NULL DEFAULT '',
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    revision        BIGINT NOT NULL
);
CREATE INDEX statements_by_tenant ON statements (tenant_id, statement_id);
CREATE INDEX statements_by_state ON statements (tenant_id, state, statement_id);
CREATE INDEX statements_by_counterparty ON statements (tenant_id, counterparty_id, statement_id);
CREATE INDEX statements_by_currency ON statements (tenant_id, currency, statement_id);
CREATE INDEX statements_by_first ON statements (tenant_id, corrects, statement_id);
CREATE INDEX statements_that_bill ON statements (tenant_id, to_at) WHERE sequence > 0;
CREATE UNIQUE INDEX statements_by_sequence ON statements (tenant_id, sequence) WHERE sequence > 0;

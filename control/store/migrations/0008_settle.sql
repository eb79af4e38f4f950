-- +goose Up

CREATE TABLE counterparties (
    counterparty_id TEXT   PRIMARY KEY,
    tenant_id       TEXT   NOT NULL REFERENCES tenants (tenant_id),
    name            TEXT   NOT NULL,
    org_id          TEXT,
    kind            TEXT   NOT NULL,
    legal_name      TEXT,
    address         TEXT,
    tax_id          TEXT,
    email           TEXT,
    payout_ref      TEXT,
    currency        TEXT   NOT NULL,
    tax_bps         BIGINT NOT NULL,
    reverse_charge  BOOLEAN NOT NULL,
    payment_days    BIGINT,
    state           TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    revision        BIGINT NOT NULL
);
CREATE INDEX counterparties_by_tenant ON counterparties (tenant_id, counterparty_id);
CREATE INDEX counterparties_by_state ON counterparties (tenant_id, state, counterparty_id);

-- matches, tiers and shares are JSON.
CREATE TABLE settlement_rules (
    rule_id         TEXT   PRIMARY KEY,
    tenant_id       TEXT   NOT NULL REFERENCES tenants (tenant_id),
    matches         TEXT   NOT NULL,
    unit            TEXT   NOT NULL,
    price           TEXT   NOT NULL,
    tiers           TEXT   NOT NULL,
    tiers_mode      TEXT,
    time_zone       TEXT   NOT NULL,
    minimum         TEXT,
    cap             TEXT,
    currency        TEXT   NOT NULL,
    shares          TEXT   NOT NULL,
    effective_from  BIGINT NOT NULL,
    effective_until BIGINT,
    priority        BIGINT NOT NULL,
    state           TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    revision        BIGINT NOT NULL
);
CREATE INDEX settlement_rules_by_tenant ON settlement_rules (tenant_id, rule_id);
CREATE INDEX settlement_rules_by_state ON settlement_rules (tenant_id, state, rule_id);

-- +goose Up

-- scope is an RFC 8785 object. countered_by and derived_right_id name records that a
-- database restored from an older copy may lack.
CREATE TABLE offers (
    offer_id          TEXT   PRIMARY KEY,
    tenant_id         TEXT   NOT NULL REFERENCES tenants (tenant_id),
    right_id          TEXT   NOT NULL REFERENCES rights (right_id),
    from_org_id       TEXT   NOT NULL,
    to_org_id         TEXT   NOT NULL,
    scope             TEXT   NOT NULL,
    effective_from    BIGINT,
    effective_until   BIGINT,
    terms_ref         TEXT,
    counter_terms_ref TEXT,
    expires_at        BIGINT NOT NULL,
    countered_by      TEXT,
    derived_right_id  TEXT,
    state             TEXT   NOT NULL,
    state_reason      TEXT,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    revision          BIGINT NOT NULL
);
CREATE INDEX offers_by_tenant ON offers (tenant_id, offer_id);
CREATE INDEX offers_by_right ON offers (right_id, tenant_id, offer_id);
CREATE INDEX offers_by_state ON offers (tenant_id, state, offer_id);
CREATE INDEX offers_due ON offers (expires_at, offer_id) WHERE state = 'PROPOSED';

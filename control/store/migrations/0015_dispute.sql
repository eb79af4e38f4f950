-- +goose Up

-- Either receipt_ids, or right_id with its window of renderedAt. All deliveries that it is about were
-- rendered from first_rendered_at to last_rendered_at, so statements of other periods need not read it.
-- evidence is JSON; outcome is NULL until state is RESOLVED. A database that was restored from an older copy may know a dispute
-- from the log, and not its right.
CREATE TABLE disputes (
    dispute_id        TEXT   PRIMARY KEY,
    tenant_id         TEXT   NOT NULL REFERENCES tenants (tenant_id),
    receipt_ids       TEXT   NOT NULL,
    right_id          TEXT,
    window_from       BIGINT,
    window_to         BIGINT,
    first_rendered_at BIGINT NOT NULL,
    last_rendered_at  BIGINT NOT NULL,
    raised_by_org_id  TEXT   NOT NULL,
    reason            TEXT   NOT NULL,
    evidence          TEXT   NOT NULL,
    outcome           TEXT,
    resolution        TEXT,
    state             TEXT   NOT NULL,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    revision          BIGINT NOT NULL
);
CREATE INDEX disputes_by_tenant ON disputes (tenant_id, dispute_id);
CREATE INDEX disputes_by_right ON disputes (right_id, tenant_id, dispute_id);
CREATE INDEX disputes_by_state ON disputes (tenant_id, state, dispute_id);
CREATE INDEX disputes_that_exclude ON disputes (tenant_id, last_rendered_at, first_rendered_at) WHERE state <> 'RESOLVED' OR outcome = 'UPHELD';

-- The receipts of each dispute again, to find it by one.
CREATE TABLE dispute_receipts (
    receipt_id TEXT NOT NULL,
    dispute_id TEXT NOT NULL REFERENCES disputes (dispute_id),
    tenant_id  TEXT NOT NULL,
    PRIMARY KEY (receipt_id, dispute_id)
);
CREATE INDEX dispute_receipts_by_tenant ON dispute_receipts (tenant_id);
CREATE INDEX dispute_receipts_by_dispute ON dispute_receipts (dispute_id);

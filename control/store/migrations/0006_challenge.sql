-- +goose Up

CREATE TABLE challenges (
    challenge_id      TEXT   PRIMARY KEY,
    tenant_id         TEXT   NOT NULL REFERENCES tenants (tenant_id),
    right_id          TEXT   NOT NULL REFERENCES rights (right_id),
    challenger_org_id TEXT   NOT NULL,
    reason            TEXT   NOT NULL,
    resolution        TEXT,
    state             TEXT   NOT NULL,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    revision          BIGINT NOT NULL
);
CREATE INDEX challenges_by_tenant ON challenges (tenant_id, challenge_id);
CREATE INDEX challenges_by_right ON challenges (right_id, tenant_id, challenge_id);
CREATE INDEX challenges_by_state ON challenges (tenant_id, state, challenge_id);

-- +goose Up

CREATE TABLE bases (
    basis_id        TEXT   PRIMARY KEY,
    tenant_id       TEXT   NOT NULL REFERENCES tenants (tenant_id),
    kind            TEXT   NOT NULL,
    title           TEXT   NOT NULL,
    holder_org_id   TEXT   NOT NULL,
    jurisdiction    TEXT,
    reference       TEXT,
    effective_from  BIGINT,
    effective_until BIGINT,
    content_hash    TEXT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    revision        BIGINT NOT NULL
);
CREATE INDEX bases_by_tenant ON bases (tenant_id, basis_id);
CREATE INDEX bases_by_end ON bases (tenant_id, effective_until, basis_id);

-- scope is an RFC 8785 object; ancestors are ids, parent first, separated by
-- spaces. effective_until is already the earliest end of the right, its ancestors
-- and its basis.
CREATE TABLE rights (
    right_id        TEXT   PRIMARY KEY,
    tenant_id       TEXT   NOT NULL REFERENCES tenants (tenant_id),
    basis_id        TEXT   NOT NULL REFERENCES bases (basis_id),
    substrate       TEXT   NOT NULL,
    scope           TEXT   NOT NULL,
    effective_from  BIGINT NOT NULL,
    effective_until BIGINT,
    parent_right_id TEXT   REFERENCES rights (right_id),
    ancestors       TEXT   NOT NULL,
    content_hash    TEXT,
    holder_org_id   TEXT   NOT NULL,
    state           TEXT   NOT NULL,
    state_reason    TEXT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    revision        BIGINT NOT NULL
);
CREATE INDEX rights_by_tenant ON rights (tenant_id, right_id);
CREATE INDEX rights_by_end ON rights (tenant_id, effective_until, right_id);
CREATE INDEX rights_by_parent ON rights (parent_right_id, tenant_id, right_id);
CREATE INDEX rights_by_basis ON rights (basis_id, tenant_id, right_id);
CREATE INDEX rights_by_state ON rights (tenant_id, state, right_id);
CREATE INDEX rights_by_substrate ON rights (tenant_id, substrate, right_id);

-- Suspensions and resumptions, each by the revision of its change.
CREATE TABLE right_moves (
    right_id  TEXT   NOT NULL,
    tenant_id TEXT   NOT NULL REFERENCES tenants (tenant_id),
    revision  BIGINT NOT NULL,
    state     TEXT   NOT NULL,
    moved_at  BIGINT NOT NULL,
    PRIMARY KEY (right_id, revision)
);
CREATE INDEX right_moves_by_time ON right_moves (right_id, moved_at, revision);
CREATE INDEX right_moves_by_tenant ON right_moves (tenant_id);

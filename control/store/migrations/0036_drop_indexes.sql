-- +goose Up

-- Whoever deletes a row has each reference to it looked for: dropping a tenant must not
-- read the tables of all others.
CREATE INDEX developers_by_tenant ON developers (tenant_id);
CREATE INDEX api_keys_by_developer ON api_keys (developer_id);
CREATE INDEX rights_by_basis ON rights (basis_id);
CREATE INDEX sandbox_tenants_by_key ON sandbox_tenants (key_id);

-- +goose Down
DROP INDEX sandbox_tenants_by_key;
DROP INDEX rights_by_basis;
DROP INDEX api_keys_by_developer;
DROP INDEX developers_by_tenant;

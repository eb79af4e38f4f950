-- +goose Up

-- visitor is 1 for a tenant of the sandbox whose key is given to nobody: it may be dropped.
ALTER TABLE tenants ADD COLUMN visitor INTEGER NOT NULL DEFAULT 0;
UPDATE tenants SET visitor = sandbox;
CREATE INDEX tenants_by_visitor ON tenants (visitor, tenant_id);

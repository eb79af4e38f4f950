-- +goose Up

-- Tenants of which nothing is kept.
CREATE TABLE dropped (
	tenant_id TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;

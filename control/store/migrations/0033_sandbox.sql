-- +goose Up

-- 1 for a tenant of the sandbox, which it is for good: keys of the sandbox alone sign
-- for it.
ALTER TABLE tenants ADD COLUMN sandbox INTEGER NOT NULL DEFAULT 0;

-- What a node that joins by the invitation signs with its keys.
ALTER TABLE invitations ADD COLUMN purpose TEXT NOT NULL DEFAULT 'receipt_signing';

-- +goose Down
ALTER TABLE invitations DROP COLUMN purpose;
ALTER TABLE tenants DROP COLUMN sandbox;

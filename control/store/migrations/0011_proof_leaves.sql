-- +goose Up

-- Which pack holds a leaf.
CREATE UNIQUE INDEX proof_packs_by_leaf ON proof_packs (tenant_id, first_index);

-- +goose Down
DROP INDEX proof_packs_by_leaf;

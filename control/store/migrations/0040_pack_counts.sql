-- +goose Up

-- What a pack's header lists, counted: a list of packs tells it, and a header may be long.
-- NULL for packs that were sealed before; their headers are counted when it is asked for.
ALTER TABLE proof_packs ADD COLUMN duplicates BIGINT;
ALTER TABLE proof_packs ADD COLUMN rated BIGINT;
ALTER TABLE proof_packs ADD COLUMN unrated BIGINT;

-- +goose Down
ALTER TABLE proof_packs DROP COLUMN unrated;
ALTER TABLE proof_packs DROP COLUMN rated;
ALTER TABLE proof_packs DROP COLUMN duplicates;

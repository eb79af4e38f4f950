-- +goose Up

-- When an operator put the node out, for good.
ALTER TABLE nodes ADD COLUMN expelled_at BIGINT;
-- 1 once the node has said that nothing that the key signed is under way any more.
ALTER TABLE signing_keys ADD COLUMN retired BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE signing_keys DROP COLUMN retired;
ALTER TABLE nodes DROP COLUMN expelled_at;

-- +goose Up

-- 1 once a key is about to be revoked: nothing that it signed is taken any more.
ALTER TABLE signing_keys ADD COLUMN leaving BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE signing_keys DROP COLUMN leaving;

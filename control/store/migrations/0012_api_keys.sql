-- +goose Up

-- successor_key_id is the key that took over in a rotation.
ALTER TABLE api_keys ADD COLUMN successor_key_id TEXT;

-- +goose Down
ALTER TABLE api_keys DROP COLUMN successor_key_id;

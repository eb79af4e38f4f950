-- +goose Up

-- How many records that the node has promised were not in the log yet, but in its spool.
ALTER TABLE node_polls ADD COLUMN spooled BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE node_polls DROP COLUMN spooled;

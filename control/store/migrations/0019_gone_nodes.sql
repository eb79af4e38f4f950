-- +goose Up

-- 1 once a process has seen that the node, which was expelled, holds no lease any more.
ALTER TABLE node_polls ADD COLUMN gone BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE node_polls DROP COLUMN gone;

-- +goose NO TRANSACTION
-- +goose Up

-- Events that were rows until their record was set aside and released. They are
-- deleted from the other tables, and never inserted again. generation and position
-- are where the event stood.
CREATE TABLE IF NOT EXISTS withdrawn (
	tenant_id   String,
	event_id    String,
	generation  UInt32,
	position    Int64,
	at          Int64,
	rendered_at Int64,
	delivery    Bool,
	idempotency String
) ENGINE = ReplacingMergeTree
ORDER BY (tenant_id, event_id)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1,
	min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_fetch = 1;

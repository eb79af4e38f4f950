-- +goose Up

-- When an operator asked the node to leave: it gets no other key. Of a key of a node
-- signing_keys.leaving says nothing any more.
ALTER TABLE nodes ADD COLUMN leaving_at BIGINT;
UPDATE nodes SET leaving_at = updated_at WHERE expelled_at IS NOT NULL
    OR node_id IN (SELECT node_id FROM signing_keys WHERE purpose = 'receipt_signing' AND leaving = 1);

-- +goose Down
ALTER TABLE nodes DROP COLUMN leaving_at;

-- +goose Up

-- Before that was noted, a key whose window ends where the next one's begins had been
-- retired: without the node's word the windows overlap by an hour.
UPDATE signing_keys SET retired = 1 WHERE purpose = 'receipt_signing' AND retired = 0 AND revoked_at IS NULL AND not_after <
    (SELECT MIN(s.not_before) FROM signing_keys s WHERE s.purpose = signing_keys.purpose AND s.node_id = signing_keys.node_id
        AND s.not_before > signing_keys.not_before) + 60000;

-- +goose Down
SELECT 1;

-- +goose Up

-- How far each node had followed the feed when it last asked one of several control
-- processes. beat counts the writes: whoever sees it grow knows that the node has
-- asked, without comparing clocks.
CREATE TABLE node_polls (
    node_id TEXT   PRIMARY KEY,
    applied BIGINT NOT NULL,
    beat    BIGINT NOT NULL
);

-- +goose Down
DROP TABLE node_polls;

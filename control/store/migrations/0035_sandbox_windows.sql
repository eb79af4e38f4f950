-- +goose Up

-- What the sandbox has accepted of an address within the last hour, where several
-- processes count together: moments in milliseconds, oldest first, separated by spaces.
CREATE TABLE sandbox_windows (
    address  TEXT   PRIMARY KEY,
    accepted TEXT   NOT NULL,
    last_at  BIGINT NOT NULL
);
CREATE INDEX sandbox_windows_by_time ON sandbox_windows (last_at);

-- +goose Down
DROP TABLE sandbox_windows;

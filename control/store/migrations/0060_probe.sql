-- +goose Up

-- What is written to find out whether the database can be written.
CREATE TABLE probe (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    filler   TEXT    NOT NULL
);

-- +goose Down
DROP TABLE probe;

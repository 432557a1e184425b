-- The time of the last round of retention, 0 before the first: where the clock is far ahead
-- of it, nothing is dropped for its age.
CREATE TABLE IF NOT EXISTS retention_round (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at  INTEGER NOT NULL
) STRICT;
INSERT OR IGNORE INTO retention_round VALUES (1, 0);

-- Leads and accounts that were deleted, so that none comes back from a node that
-- still has it. Nothing of a person is kept: the id and when it was deleted.
CREATE TABLE IF NOT EXISTS tombstones (
    n          INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    deleted_at INTEGER NOT NULL
) STRICT;

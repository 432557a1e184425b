CREATE TABLE rollouts (
    n        INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT NOT NULL UNIQUE,
    release  TEXT NOT NULL,
    active   INTEGER UNIQUE,           -- 1 while it is under way, which one can be; else NULL
    revision INTEGER NOT NULL,         -- rises with each step
    record   TEXT NOT NULL            -- JSON of all of it
) STRICT;

-- What the nodes are to run: the digest of a release, or '' for the modules of
-- the node's own disk. The row of node '' is for all that have none.
CREATE TABLE node_releases (
    node   TEXT NOT NULL PRIMARY KEY,
    digest TEXT NOT NULL
) STRICT;

CREATE TABLE rollouts (
    n        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       TEXT COLLATE "C" NOT NULL UNIQUE,
    release  TEXT COLLATE "C" NOT NULL,
    active   BIGINT UNIQUE,           -- 1 while it is under way, which one can be; else NULL
    revision BIGINT NOT NULL,         -- rises with each step
    record   TEXT NOT NULL            -- JSON of all of it
);

-- What the nodes are to run: the digest of a release, or '' for the modules of
-- the node's own disk. The row of node '' is for all that have none.
CREATE TABLE node_releases (
    node   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    digest TEXT NOT NULL
);

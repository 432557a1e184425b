-- When a node was heard is written every half minute, to a table of its own. The columns
-- of nodes are those of earlier programs, and are not written.
CREATE TABLE node_seen (
    id      TEXT    PRIMARY KEY,
    at      INTEGER NOT NULL,
    version TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO node_seen (id, at, version) SELECT id, last_seen_at, version FROM nodes;

-- When a node was heard is written every half minute. In a table of its own such a row is
-- small, and needs no lock of the node's. Pages leave room to replace it where it is. The
-- columns of nodes are those of earlier programs, and are not written.
CREATE TABLE IF NOT EXISTS node_seen (
    id      TEXT COLLATE "C" PRIMARY KEY,
    at      BIGINT NOT NULL,
    version TEXT   NOT NULL
) WITH (fillfactor = 45);

INSERT INTO node_seen (id, at, version) SELECT id, last_seen_at, version FROM nodes
ON CONFLICT (id) DO UPDATE SET at = excluded.at, version = excluded.version WHERE node_seen.at < excluded.at;

ALTER TABLE nodes RESET (fillfactor);

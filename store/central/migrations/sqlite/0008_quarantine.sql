-- Leads that the origin refused, as they were received, until an operator
-- releases or discards them.
CREATE TABLE quarantine (
    n           INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE, -- made of the lead's id and body
    lead_id     TEXT    NOT NULL,        -- this and the next two as far as they can be read, else ''
    account_id  TEXT    NOT NULL,
    key_id      TEXT    NOT NULL,
    node_id     TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('waiting', 'released', 'discarded')),
    size        INTEGER NOT NULL,        -- bytes of the body as it was received
    body        BLOB    NOT NULL,        -- empty once released or discarded
    received_at INTEGER NOT NULL,
    settled_at  INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX quarantine_in_state ON quarantine (state, n);

-- What a stream of an account's events reads: them in the order in which they came in,
-- whatever the clock said. A rowid of its own would be used again once the newest events
-- are dropped, and a stream behind them would miss the next. The index is filled with the
-- table, since one that is made of a full table is sorted in memory.
DROP INDEX events_of_account;
CREATE TABLE events_in_order (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE, -- sorts by time
    account_id TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    silenced   INTEGER NOT NULL,
    body       TEXT    NOT NULL -- the envelope, byte for byte as it is sent
) STRICT;
CREATE INDEX events_of_account ON events_in_order (account_id); -- and by n, with which every index ends
INSERT INTO events_in_order (n, id, account_id, type, created_at, silenced, body)
    SELECT rowid, id, account_id, type, created_at, silenced, body FROM events ORDER BY rowid;
DROP TABLE events;
ALTER TABLE events_in_order RENAME TO events;

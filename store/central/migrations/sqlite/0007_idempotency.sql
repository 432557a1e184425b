-- What was answered to requests with an idempotency key, for a day.
CREATE TABLE idempotency (
    account_id TEXT    NOT NULL,
    name       TEXT    NOT NULL, -- the kind of request and its key
    digest     TEXT    NOT NULL, -- of what was asked for
    answer     TEXT    NOT NULL, -- JSON
    created_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_old ON idempotency (account_id, created_at);

-- Times are microseconds since the Unix epoch, UTC; 0 is "not set".
-- n numbers the rows of a table in the order they came in: lists page by it.

CREATE TABLE accounts (
    n          INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    name       TEXT    NOT NULL,
    mode       TEXT    NOT NULL CHECK (mode IN ('setup', 'live')),
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE agents (
    id         TEXT    NOT NULL PRIMARY KEY,
    account_id TEXT    NOT NULL UNIQUE REFERENCES accounts (id),
    email      TEXT    NOT NULL,
    full_name  TEXT    NOT NULL,
    joined_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE keys (
    n            INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    account_id   TEXT    NOT NULL REFERENCES accounts (id),
    hash         BLOB    NOT NULL UNIQUE, -- SHA-256 of the plaintext
    environment  TEXT    NOT NULL CHECK (environment IN ('live', 'test')),
    scopes       TEXT    NOT NULL,        -- JSON array of text
    allowlist    TEXT    NOT NULL,        -- JSON array of networks
    rate_limit   INTEGER NOT NULL,
    label        TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    grace_until  INTEGER NOT NULL DEFAULT 0,
    revoked_at   INTEGER NOT NULL DEFAULT 0,
    successor_id TEXT    NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX keys_of_account ON keys (account_id, n);

CREATE TABLE insights (
    id         TEXT    NOT NULL PRIMARY KEY,
    account_id TEXT    NOT NULL REFERENCES accounts (id),
    headline   TEXT    NOT NULL,
    detail     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (account_id, created_at)
) STRICT;

CREATE TABLE firings (
    id           TEXT    NOT NULL PRIMARY KEY,
    account_id   TEXT    NOT NULL REFERENCES accounts (id),
    name         TEXT    NOT NULL,
    triggered_at INTEGER NOT NULL,
    data         TEXT    NOT NULL, -- a JSON object
    action       TEXT    NOT NULL,
    UNIQUE (account_id, triggered_at)
) STRICT;

CREATE TABLE deals (
    account_id TEXT    NOT NULL REFERENCES accounts (id),
    id         TEXT    NOT NULL, -- the caller's
    stage      TEXT    NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE contacts (
    id          TEXT    NOT NULL PRIMARY KEY,
    account_id  TEXT    NOT NULL REFERENCES accounts (id),
    client_id   TEXT    NOT NULL,
    channel     TEXT    NOT NULL,
    occurred_at INTEGER NOT NULL
) STRICT;

CREATE TABLE goals (
    account_id TEXT    NOT NULL REFERENCES accounts (id),
    id         TEXT    NOT NULL, -- the caller's
    pace       TEXT    NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE leads (
    n                INTEGER PRIMARY KEY,
    id               TEXT    NOT NULL UNIQUE,
    account_id       TEXT    NOT NULL REFERENCES accounts (id),
    key_id           TEXT    NOT NULL,
    environment      TEXT    NOT NULL CHECK (environment = 'live'),
    first_name       TEXT    NOT NULL,
    last_name        TEXT    NOT NULL,
    email            TEXT    NOT NULL,
    phone            TEXT    NOT NULL,
    consent_status   TEXT    NOT NULL,
    consent_text     TEXT    NOT NULL,
    captured_at      INTEGER NOT NULL,
    outreach_allowed INTEGER NOT NULL,
    created_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX leads_of_account ON leads (account_id, n);

CREATE TABLE subscriptions (
    n            INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    account_id   TEXT    NOT NULL REFERENCES accounts (id),
    key_id       TEXT    NOT NULL,
    environment  TEXT    NOT NULL CHECK (environment IN ('live', 'test')),
    target_url   TEXT    NOT NULL,
    events       TEXT    NOT NULL, -- JSON array of event types
    description  TEXT,             -- NULL: none given
    secret       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    revoked_at   INTEGER NOT NULL DEFAULT 0,
    failing_from INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX subscriptions_of_account ON subscriptions (account_id, n);
CREATE INDEX subscriptions_active ON subscriptions (account_id) WHERE revoked_at = 0;

CREATE TABLE events (
    id         TEXT    NOT NULL PRIMARY KEY, -- sorts by time
    account_id TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    silenced   INTEGER NOT NULL,
    body       TEXT    NOT NULL -- the envelope, byte for byte as it is sent
) STRICT;

-- Queue and log at once. No foreign keys: a row is written in the event's own
-- transaction and removed only by retention, which keeps the two in step.
CREATE TABLE deliveries (
    id              TEXT    NOT NULL PRIMARY KEY, -- sorts by time
    event_id        TEXT    NOT NULL,
    subscription_id TEXT    NOT NULL,
    state           TEXT    NOT NULL, -- pending, delivered, dead, cancelled
    attempts        INTEGER NOT NULL, -- tries made
    tries_before    INTEGER NOT NULL, -- of these, before it was last queued by an operator
    next_at         INTEGER NOT NULL, -- when the next try is due, 0 when there is none
    due_at          INTEGER NOT NULL, -- next_at, or the end of the lease that is held on it
    lease_owner     TEXT    NOT NULL, -- '' when nobody holds it
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    UNIQUE (subscription_id, event_id) -- also the log of a subscription
) STRICT;
-- The queue, by subscription: one with a million waiting hides no other.
CREATE INDEX deliveries_queue ON deliveries (subscription_id, due_at) WHERE state = 'pending';
-- What an operator looks for in a long log, and recovers.
CREATE INDEX deliveries_dead ON deliveries (subscription_id, event_id) WHERE state = 'dead';

CREATE TABLE attempts (
    delivery_id TEXT    NOT NULL,
    number      INTEGER NOT NULL, -- from 1
    id          TEXT    NOT NULL, -- as sent in x-svc-delivery-id
    started_at  INTEGER NOT NULL,
    latency_us  INTEGER NOT NULL,
    status      INTEGER NOT NULL, -- 0 when no answer came
    headers     TEXT    NOT NULL, -- JSON object of the request's headers
    excerpt     TEXT    NOT NULL,
    error       TEXT    NOT NULL,
    PRIMARY KEY (delivery_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE nodes (
    n            INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    name         TEXT    NOT NULL,
    region       TEXT    NOT NULL,
    public_key   TEXT    NOT NULL UNIQUE,
    created_at   INTEGER NOT NULL,
    revoked_at   INTEGER NOT NULL DEFAULT 0,
    last_seen_at INTEGER NOT NULL DEFAULT 0,
    version      TEXT    NOT NULL DEFAULT ''
) STRICT;

-- One row: the number of the last change. It is raised in the transaction of
-- the change, so numbers have no gaps and rise in the order of commit.
CREATE TABLE change_counter (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    seq  INTEGER NOT NULL
) STRICT;
INSERT INTO change_counter VALUES (1, 0);

CREATE TABLE changes (
    seq  INTEGER PRIMARY KEY,
    kind TEXT    NOT NULL,
    ref  TEXT    NOT NULL,
    gone INTEGER NOT NULL
) STRICT;

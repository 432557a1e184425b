-- Times are microseconds since the Unix epoch, UTC; 0 is "not set".
-- Identifiers compare by their bytes (COLLATE "C"), whatever the database's locale.
-- n numbers the rows of a table in the order they came in: lists page by it.

CREATE TABLE accounts (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    name       TEXT    NOT NULL,
    mode       TEXT    NOT NULL CHECK (mode IN ('setup', 'live')),
    created_at BIGINT  NOT NULL
);

CREATE TABLE agents (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    account_id TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES accounts (id),
    email      TEXT    NOT NULL,
    full_name  TEXT    NOT NULL,
    joined_at  BIGINT  NOT NULL
);

CREATE TABLE keys (
    n            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           TEXT COLLATE "C" NOT NULL UNIQUE,
    account_id   TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    hash         BYTEA   NOT NULL UNIQUE, -- SHA-256 of the plaintext
    environment  TEXT    NOT NULL CHECK (environment IN ('live', 'test')),
    scopes       TEXT    NOT NULL,        -- JSON array of text
    allowlist    TEXT    NOT NULL,        -- JSON array of networks
    rate_limit   BIGINT  NOT NULL,
    label        TEXT    NOT NULL,
    created_at   BIGINT  NOT NULL,
    expires_at   BIGINT  NOT NULL,
    grace_until  BIGINT  NOT NULL DEFAULT 0,
    revoked_at   BIGINT  NOT NULL DEFAULT 0,
    successor_id TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX keys_of_account ON keys (account_id, n);

CREATE TABLE insights (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    headline   TEXT    NOT NULL,
    detail     TEXT    NOT NULL,
    created_at BIGINT  NOT NULL,
    UNIQUE (account_id, created_at)
);

CREATE TABLE firings (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    account_id   TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    name         TEXT    NOT NULL,
    triggered_at BIGINT  NOT NULL,
    data         TEXT    NOT NULL, -- a JSON object
    action       TEXT    NOT NULL,
    UNIQUE (account_id, triggered_at)
);

CREATE TABLE deals (
    account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    id         TEXT COLLATE "C" NOT NULL, -- the caller's
    stage      TEXT    NOT NULL,
    changed_at BIGINT  NOT NULL,
    PRIMARY KEY (account_id, id)
);

CREATE TABLE contacts (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    account_id  TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    client_id   TEXT COLLATE "C" NOT NULL,
    channel     TEXT    NOT NULL,
    occurred_at BIGINT  NOT NULL
);

CREATE TABLE goals (
    account_id TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    id         TEXT COLLATE "C" NOT NULL, -- the caller's
    pace       TEXT    NOT NULL,
    changed_at BIGINT  NOT NULL,
    PRIMARY KEY (account_id, id)
);

CREATE TABLE leads (
    n                BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id               TEXT COLLATE "C" NOT NULL UNIQUE,
    account_id       TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    key_id           TEXT COLLATE "C" NOT NULL,
    environment      TEXT    NOT NULL CHECK (environment = 'live'),
    first_name       TEXT    NOT NULL,
    last_name        TEXT    NOT NULL,
    email            TEXT    NOT NULL,
    phone            TEXT    NOT NULL,
    consent_status   TEXT    NOT NULL,
    consent_text     TEXT    NOT NULL,
    captured_at      BIGINT  NOT NULL,
    outreach_allowed BIGINT  NOT NULL,
    created_at       BIGINT  NOT NULL
);
CREATE INDEX leads_of_account ON leads (account_id, n);

CREATE TABLE subscriptions (
    n            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           TEXT COLLATE "C" NOT NULL UNIQUE,
    account_id   TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    key_id       TEXT COLLATE "C" NOT NULL,
    environment  TEXT    NOT NULL CHECK (environment IN ('live', 'test')),
    target_url   TEXT    NOT NULL,
    events       TEXT    NOT NULL, -- JSON array of event types
    description  TEXT,             -- NULL: none given
    secret       TEXT    NOT NULL,
    created_at   BIGINT  NOT NULL,
    revoked_at   BIGINT  NOT NULL DEFAULT 0,
    failing_from BIGINT  NOT NULL DEFAULT 0
);
CREATE INDEX subscriptions_of_account ON subscriptions (account_id, n);
CREATE INDEX subscriptions_active ON subscriptions (account_id) WHERE revoked_at = 0;

CREATE TABLE events (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- sorts by time
    account_id TEXT COLLATE "C" NOT NULL,
    type       TEXT    NOT NULL,
    created_at BIGINT  NOT NULL,
    silenced   BIGINT  NOT NULL,
    body       TEXT    NOT NULL -- the envelope, byte for byte as it is sent
);

-- Queue and log at once. No foreign keys: a row is written in the event's own
-- transaction and removed only by retention, which keeps the two in step.
CREATE TABLE deliveries (
    id              TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- sorts by time
    event_id        TEXT COLLATE "C" NOT NULL,
    subscription_id TEXT COLLATE "C" NOT NULL,
    state           TEXT    NOT NULL, -- pending, delivered, dead, cancelled
    attempts        BIGINT  NOT NULL, -- tries made
    tries_before    BIGINT  NOT NULL, -- of these, before it was last queued by an operator
    next_at         BIGINT  NOT NULL, -- when the next try is due, 0 when there is none
    due_at          BIGINT  NOT NULL, -- next_at, or the end of the lease that is held on it
    lease_owner     TEXT    NOT NULL, -- '' when nobody holds it
    created_at      BIGINT  NOT NULL,
    updated_at      BIGINT  NOT NULL,
    UNIQUE (subscription_id, event_id) -- also the log of a subscription
);
-- The queue, by subscription: one with a million waiting hides no other.
CREATE INDEX deliveries_queue ON deliveries (subscription_id, due_at) WHERE state = 'pending';
-- What an operator looks for in a long log, and recovers.
CREATE INDEX deliveries_dead ON deliveries (subscription_id, event_id) WHERE state = 'dead';

CREATE TABLE attempts (
    delivery_id TEXT COLLATE "C" NOT NULL,
    number      BIGINT  NOT NULL, -- from 1
    id          TEXT COLLATE "C" NOT NULL, -- as sent in x-svc-delivery-id
    started_at  BIGINT  NOT NULL,
    latency_us  BIGINT  NOT NULL,
    status      BIGINT  NOT NULL, -- 0 when no answer came
    headers     TEXT    NOT NULL, -- JSON object of the request's headers
    excerpt     TEXT    NOT NULL,
    error       TEXT    NOT NULL,
    PRIMARY KEY (delivery_id, number)
);

CREATE TABLE nodes (
    n            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           TEXT COLLATE "C" NOT NULL UNIQUE,
    name         TEXT    NOT NULL,
    region       TEXT    NOT NULL,
    public_key   TEXT    NOT NULL UNIQUE,
    created_at   BIGINT  NOT NULL,
    revoked_at   BIGINT  NOT NULL DEFAULT 0,
    last_seen_at BIGINT  NOT NULL DEFAULT 0,
    version      TEXT    NOT NULL DEFAULT ''
);

-- One row: the number of the last change. It is raised in the transaction of
-- the change, so numbers have no gaps and rise in the order of commit.
CREATE TABLE change_counter (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    seq BIGINT NOT NULL
);
INSERT INTO change_counter VALUES (1, 0);

CREATE TABLE changes (
    seq  BIGINT PRIMARY KEY,
    kind TEXT    NOT NULL,
    ref  TEXT    NOT NULL,
    gone BIGINT  NOT NULL
);

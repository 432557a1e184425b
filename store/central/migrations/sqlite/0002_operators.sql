CREATE TABLE tokens (
    n          INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    name       TEXT    NOT NULL,
    role       TEXT    NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    hash       BLOB    NOT NULL UNIQUE, -- SHA-256 of the plaintext
    created_at INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE audit (
    n      INTEGER PRIMARY KEY AUTOINCREMENT,
    id     TEXT    NOT NULL UNIQUE,
    at     INTEGER NOT NULL,
    actor  TEXT    NOT NULL, -- id of the token, or what else let them in
    name   TEXT    NOT NULL,
    role   TEXT    NOT NULL,
    remote TEXT    NOT NULL,
    action TEXT    NOT NULL,
    target TEXT    NOT NULL,
    before TEXT,             -- JSON without secrets; NULL: there was none
    after  TEXT              -- JSON without secrets; NULL: there is none
) STRICT;
CREATE INDEX audit_of_target ON audit (target, n);

-- What is in the log stays as it is.
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
CREATE TRIGGER audit_remains BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;

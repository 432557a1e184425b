CREATE TABLE tokens (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    name       TEXT   NOT NULL,
    role       TEXT   NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    hash       BYTEA  NOT NULL UNIQUE, -- SHA-256 of the plaintext
    created_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE audit (
    n      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id     TEXT COLLATE "C" NOT NULL UNIQUE,
    at     BIGINT NOT NULL,
    actor  TEXT   NOT NULL, -- id of the token, or what else let them in
    name   TEXT   NOT NULL,
    role   TEXT   NOT NULL,
    remote TEXT   NOT NULL,
    action TEXT   NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    before TEXT,            -- JSON without secrets; NULL: there was none
    after  TEXT             -- JSON without secrets; NULL: there is none
);
CREATE INDEX audit_of_target ON audit (target, n);

-- What is in the log stays as it is.
CREATE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit log only grows'; END $$;
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION audit_only_grows();
CREATE TRIGGER audit_remains BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_only_grows();

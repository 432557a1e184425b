-- Whether the account ever had an insight, once retention has removed one.
ALTER TABLE accounts ADD COLUMN coached INTEGER NOT NULL DEFAULT 0;

-- Entries of the audit log before this time may go by their age, and no others. It
-- only rises.
CREATE TABLE audit_since (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at  INTEGER NOT NULL
) STRICT;
INSERT INTO audit_since VALUES (1, 0);
CREATE TRIGGER audit_since_rises BEFORE UPDATE ON audit_since WHEN NEW.at < OLD.at
BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
CREATE TRIGGER audit_since_remains BEFORE DELETE ON audit_since
BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;
DROP TRIGGER audit_remains;
CREATE TRIGGER audit_remains BEFORE DELETE ON audit WHEN OLD.at >= (SELECT at FROM audit_since)
BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END;

-- Whether the account ever had an insight, once retention has removed one.
ALTER TABLE accounts ADD COLUMN coached BIGINT NOT NULL DEFAULT 0;

-- Entries of the audit log before this time may go by their age, and no others. It
-- only rises.
CREATE TABLE audit_since (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    at  BIGINT NOT NULL
);
INSERT INTO audit_since VALUES (1, 0);
CREATE FUNCTION audit_since_only_rises() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.at >= OLD.at THEN RETURN NEW; END IF;
    END IF;
    RAISE EXCEPTION 'the audit log only grows';
END $$;
CREATE TRIGGER audit_since_rises BEFORE UPDATE OR DELETE ON audit_since
    FOR EACH ROW EXECUTE FUNCTION audit_since_only_rises();
CREATE OR REPLACE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.at < (SELECT at FROM audit_since) THEN RETURN OLD; END IF;
    END IF;
    RAISE EXCEPTION 'the audit log only grows';
END $$;

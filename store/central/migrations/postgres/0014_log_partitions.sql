-- Changes names alone: no row is read or moved. What no partition is made for goes to
-- the ones named rest, so that no insert can fail.
DO $$
DECLARE
    log TEXT;
    bound TEXT;
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'attempts'::regclass) = 'p' THEN
        RETURN;
    END IF;
    ALTER TABLE attempts RENAME TO attempts_first;
    ALTER INDEX attempts_pkey RENAME TO attempts_first_pkey;
    CREATE TABLE attempts (LIKE attempts_first, PRIMARY KEY (delivery_id, number)) PARTITION BY RANGE (delivery_id);
    CREATE TABLE attempts_rest PARTITION OF attempts DEFAULT;

    ALTER TABLE events RENAME TO events_first;
    ALTER INDEX events_pkey RENAME TO events_first_pkey;
    ALTER INDEX events_of_account RENAME TO events_first_of_account;
    CREATE TABLE events (LIKE events_first, PRIMARY KEY (id)) PARTITION BY RANGE (id);
    CREATE INDEX events_of_account ON events (account_id, id);
    CREATE TABLE events_rest PARTITION OF events DEFAULT;

    FOREACH log IN ARRAY ARRAY['attempts', 'events'] LOOP
        SELECT substring(pg_get_constraintdef(oid) FROM '''(.*?)''') INTO STRICT bound
            FROM pg_constraint WHERE conname = log || '_bound' AND conrelid = (log || '_first')::regclass;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)', log, log || '_first', bound);
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', log || '_first', log || '_bound');
    END LOOP;
END $$;

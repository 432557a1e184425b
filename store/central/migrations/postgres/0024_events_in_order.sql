-- What a stream of an account's events reads: them in the order in which they came in,
-- whatever the clock said. Whoever writes an event holds its account, so that n rises in
-- the order of the account's commits. No row is written anew but those of the last hour,
-- beyond which no stream goes back: all others have none.
ALTER TABLE events ADD COLUMN IF NOT EXISTS n BIGINT;
CREATE SEQUENCE IF NOT EXISTS events_n;
ALTER TABLE events ALTER COLUMN n SET DEFAULT nextval('events_n');
DO $$
DECLARE
    recent TEXT COLLATE "C"; -- before the identifiers of the last hour
    since BIGINT := extract(epoch FROM now() - interval '1 hour') * 1000;
BEGIN
    SELECT 'evt_' || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', (since >> (5 * place) & 31)::int + 1, 1), '' ORDER BY place DESC)
        INTO recent FROM generate_series(0, 9) place;
    UPDATE events SET n = numbered.n
        FROM (SELECT id, nextval('events_n') AS n FROM (SELECT id FROM events WHERE id > recent AND n IS NULL ORDER BY id) sorted) numbered
        WHERE events.id = numbered.id AND events.id > recent;
END $$;
-- The rows without a number are passed over, not sorted. An erasure finds them by
-- events_of_account.
CREATE INDEX IF NOT EXISTS events_in_order ON events (account_id, n) WHERE n IS NOT NULL;

-- Apart from 0024, so that others read the log meanwhile. No row is written anew but those
-- of the last hour, beyond which no stream goes back: all others have no number, and are
-- passed over. An erasure finds them by events_of_account. The lock comes before all work:
-- taken by the index only, it could meet an erasure that waits for one of those rows.
LOCK TABLE events IN SHARE ROW EXCLUSIVE MODE;
DO $$
DECLARE
    recent TEXT COLLATE "C"; -- before the identifiers of the last hour
    since BIGINT := extract(epoch FROM now() - interval '1 hour') * 1000;
BEGIN
    SELECT 'evt_' || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', (since >> (5 * place) & 31)::int + 1, 1), '' ORDER BY place DESC)
        INTO recent FROM generate_series(0, 9) place;
    UPDATE events SET n = numbered.n
        FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM events WHERE id > recent AND n IS NULL) numbered
        WHERE events.id = numbered.id AND events.id > recent;
END $$;
CREATE INDEX IF NOT EXISTS events_in_order ON events (account_id, n) WHERE n IS NOT NULL;

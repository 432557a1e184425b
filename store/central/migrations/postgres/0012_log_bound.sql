-- The log is to go by partitions of time: attempts by that of their delivery, events by
-- their own, which identifiers begin with. The tables that are there become the first
-- partition, with all that comes in for two months more: should an upgrade stop before
-- 0014, so long can the earlier program go on. A check that was validated proves this to
-- ATTACH, which then reads no row. NOT VALID reads none here either.
-- Where an earlier program was put back (see RATIONALE.md), they are partitions already.
DO $$
DECLARE
    bound TEXT COLLATE "C"; -- the part of an identifier that is its time
    ahead BIGINT := extract(epoch FROM date_trunc('day', now(), 'UTC') + interval '60 days') * 1000;
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'attempts'::regclass) = 'p' THEN
        RETURN;
    END IF;
    SELECT string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', (ahead >> (5 * place) & 31)::int + 1, 1), '' ORDER BY place DESC)
        INTO bound FROM generate_series(0, 9) place;
    -- What a clock that was ahead has left goes in as well.
    SELECT greatest(bound, substr(a.id, 5, 10) || '~', substr(e.id, 5, 10) || '~') INTO bound
        FROM (SELECT max(delivery_id) AS id FROM attempts) a, (SELECT max(id) AS id FROM events) e;
    EXECUTE format('ALTER TABLE attempts ADD CONSTRAINT attempts_bound CHECK (delivery_id < %L) NOT VALID', 'dlv_' || bound);
    EXECUTE format('ALTER TABLE events ADD CONSTRAINT events_bound CHECK (id < %L) NOT VALID', 'evt_' || bound);
END $$;

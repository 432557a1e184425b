-- What a stream of an account's events reads: them in the order in which they came in,
-- whatever the clock said. Whoever writes an event holds its account, so that n rises in
-- the order of the account's commits. No row is read or written: those of before have no
-- number, until 0026 gives those of the last hour one below the first of the sequence.
ALTER TABLE events ADD COLUMN IF NOT EXISTS n BIGINT;
CREATE SEQUENCE IF NOT EXISTS events_n START 1000000000;
ALTER TABLE events ALTER COLUMN n SET DEFAULT nextval('events_n');

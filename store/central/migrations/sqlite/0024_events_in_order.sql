-- What a stream of an account's events reads: them in the order in which they came in,
-- whatever the clock said. In SQLite that is the order of rowid, with which every index
-- goes on.
DROP INDEX IF EXISTS events_of_account;
CREATE INDEX events_of_account ON events (account_id);

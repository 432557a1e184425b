-- What a stream of an account's events reads, without those of all others.
CREATE INDEX events_of_account ON events (account_id, id);

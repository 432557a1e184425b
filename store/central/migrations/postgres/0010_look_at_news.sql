-- The transaction that last made a delivery wait or moved it in the queue. A process
-- reads by it what was written since it last looked, and passes over the dead entries
-- of deliveries_queue, which cannot be removed while somebody reads the database for
-- long. The condition is written so that only the query that means this index takes it,
-- and that query no other one.
ALTER TABLE deliveries ADD COLUMN written xid8 NOT NULL DEFAULT '0';
ALTER TABLE deliveries ALTER COLUMN written SET DEFAULT pg_current_xact_id();
CREATE INDEX deliveries_written ON deliveries (written) WHERE state || '' = 'pending';

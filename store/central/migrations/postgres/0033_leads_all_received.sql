-- Origins that do not know the column still write leads while others are upgraded: those come in now.
ALTER TABLE leads ALTER COLUMN received_at SET DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
-- When those came in that are older than the column, as far as it is known: they go by it.
UPDATE leads SET received_at = created_at WHERE received_at = 0;

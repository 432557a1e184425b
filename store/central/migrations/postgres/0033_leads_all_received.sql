-- Origins that do not know the column still write leads while others are upgraded: those come in now.
-- No row is written while the table is locked: 0037 gives those of before a time.
ALTER TABLE leads ALTER COLUMN received_at SET DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

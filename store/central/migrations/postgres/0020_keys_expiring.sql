-- Keys that may be used, by when they expire: the console and the metrics ask for the
-- next of them, and without this read every key.
CREATE INDEX IF NOT EXISTS keys_expiring ON keys (expires_at, id) WHERE revoked_at = 0 AND grace_until = 0;

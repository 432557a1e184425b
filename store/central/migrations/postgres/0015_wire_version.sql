-- The version of messages that a node was enrolled with or has spoken since.
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS wire_version BIGINT NOT NULL DEFAULT 0;

-- The version of messages that a node was enrolled with or has spoken since.
ALTER TABLE nodes ADD COLUMN wire_version INTEGER NOT NULL DEFAULT 0;

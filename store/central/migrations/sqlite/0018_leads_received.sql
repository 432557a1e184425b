-- When a lead came in, by the origin's clock: its id and created_at have its node's.
ALTER TABLE leads ADD COLUMN received_at INTEGER NOT NULL DEFAULT 0;

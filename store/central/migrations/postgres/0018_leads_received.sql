-- When a lead came in, by the origin's clock: its id and created_at have its node's.
ALTER TABLE leads ADD COLUMN IF NOT EXISTS received_at BIGINT NOT NULL DEFAULT 0;

-- The secret that was in force before, and until when it still signs as well.
ALTER TABLE subscriptions ADD COLUMN old_secret TEXT NOT NULL DEFAULT '';
ALTER TABLE subscriptions ADD COLUMN old_until BIGINT NOT NULL DEFAULT 0;

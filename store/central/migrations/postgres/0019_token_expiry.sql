-- When a token ends by itself, 0 never, and when it was last used, to the minute.
ALTER TABLE tokens ADD COLUMN IF NOT EXISTS expires_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN IF NOT EXISTS last_used_at BIGINT NOT NULL DEFAULT 0;

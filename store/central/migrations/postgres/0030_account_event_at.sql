-- created_at of the account's last event, 0 without one: that of the next is later, also
-- where the clock was put back.
ALTER TABLE accounts ADD COLUMN IF NOT EXISTS event_at BIGINT NOT NULL DEFAULT 0;

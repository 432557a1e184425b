-- How many requests each key was used for on each day. A node reports running totals of
-- a counter, which boot names: of the same counter the largest counts. day is in days
-- since the Unix epoch, and last_used_at to the minute, 0 never.
CREATE TABLE IF NOT EXISTS key_usage (
    key_id   TEXT   NOT NULL REFERENCES keys (id),
    day      BIGINT NOT NULL,
    node_id  TEXT   NOT NULL,
    boot     TEXT   NOT NULL,
    requests BIGINT NOT NULL,
    limited  BIGINT NOT NULL,
    PRIMARY KEY (key_id, day, node_id, boot)
);
CREATE INDEX IF NOT EXISTS key_usage_by_day ON key_usage (day);
ALTER TABLE keys ADD COLUMN IF NOT EXISTS last_used_at BIGINT NOT NULL DEFAULT 0;

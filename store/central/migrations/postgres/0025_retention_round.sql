-- The time of the last round of retention, 0 before the first: where the clock is far ahead
-- of it, nothing is dropped for its age. doubt_at is the clock when it was last found ahead,
-- 0 where it is not, and stood the microseconds that origins have run with it since.
CREATE TABLE IF NOT EXISTS retention_round (
    one      BIGINT PRIMARY KEY CHECK (one = 1),
    at       BIGINT NOT NULL,
    doubt_at BIGINT NOT NULL,
    stood    BIGINT NOT NULL
);
INSERT INTO retention_round VALUES (1, 0, 0, 0) ON CONFLICT DO NOTHING;

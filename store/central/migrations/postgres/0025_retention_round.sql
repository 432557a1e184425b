-- The time of the last round of retention, 0 before the first: where the clock is far ahead
-- of it, nothing is dropped for its age.
CREATE TABLE IF NOT EXISTS retention_round (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    at  BIGINT NOT NULL
);
INSERT INTO retention_round VALUES (1, 0) ON CONFLICT DO NOTHING;

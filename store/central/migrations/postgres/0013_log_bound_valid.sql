-- Reads both tables once, while others read and write them.
ALTER TABLE attempts VALIDATE CONSTRAINT attempts_bound;
ALTER TABLE events VALIDATE CONSTRAINT events_bound;

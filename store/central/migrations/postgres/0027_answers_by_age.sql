-- Answers to idempotency keys go by their age, whichever account's they are.
LOCK TABLE idempotency IN ACCESS EXCLUSIVE MODE;
DROP INDEX IF EXISTS idempotency_old;
CREATE INDEX idempotency_old ON idempotency (created_at);

-- Subscriptions that were revoked, by when: they go some time later.
CREATE INDEX IF NOT EXISTS subscriptions_revoked ON subscriptions (revoked_at, n) WHERE revoked_at <> 0;

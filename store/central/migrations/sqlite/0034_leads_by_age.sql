-- Leads go by when they came in: an id may be of any form, and have the time of any clock.
CREATE INDEX IF NOT EXISTS leads_by_age ON leads (received_at, n);

-- Whoever deletes a lead or an account looks for what the quarantine has of it: under the lead's
-- id, and as what and to whom it was released.
CREATE INDEX IF NOT EXISTS quarantine_of_lead ON quarantine (lead_id);
CREATE INDEX IF NOT EXISTS quarantine_released_as ON quarantine (released_as);
CREATE INDEX IF NOT EXISTS quarantine_released_to ON quarantine (released_to);

-- What a lead was released as, and to whose account: whoever deletes that keeps the refused lead
-- from coming back too, which has another id. Empty where it was not released, or before this.
ALTER TABLE quarantine ADD COLUMN IF NOT EXISTS released_as TEXT NOT NULL DEFAULT '';
ALTER TABLE quarantine ADD COLUMN IF NOT EXISTS released_to TEXT NOT NULL DEFAULT '';

-- The contacts of a person, in whichever account: the lead that names it may be gone.
CREATE INDEX IF NOT EXISTS contacts_by_client ON contacts (client_id);

-- The contacts of an account, and of one person, are found without reading those of all.
CREATE INDEX IF NOT EXISTS contacts_of_client ON contacts (account_id, client_id);

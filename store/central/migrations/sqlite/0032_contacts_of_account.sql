-- The contacts of an account in the order of an export, which would else read and sort all
-- of them for each page.
CREATE INDEX IF NOT EXISTS contacts_of_account ON contacts (account_id, id);

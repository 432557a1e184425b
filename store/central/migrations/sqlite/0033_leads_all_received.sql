-- When those came in that are older than the column, as far as it is known: they go by it.
UPDATE leads SET received_at = created_at WHERE received_at = 0;

-- When those came in that are older than the column, as far as it is known: they go by it.
-- Apart from 0033, so that others read and write leads meanwhile.
UPDATE leads SET received_at = created_at WHERE received_at = 0;

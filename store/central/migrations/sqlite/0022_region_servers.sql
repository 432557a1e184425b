-- The NATS servers of regions: each has a user in the account of origin and nodes, and
-- one in the system account.
CREATE TABLE region_servers (
    n          INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    region     TEXT    NOT NULL, -- '' of one for all regions
    public_key TEXT    NOT NULL UNIQUE,
    system_key TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL DEFAULT 0
) STRICT;

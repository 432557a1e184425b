-- The NATS servers of regions: each has a user in the account of origin and nodes, and
-- one in the system account.
CREATE TABLE IF NOT EXISTS region_servers (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    region     TEXT   NOT NULL, -- '' of one for all regions
    public_key TEXT   NOT NULL UNIQUE,
    system_key TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL DEFAULT 0
);

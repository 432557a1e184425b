CREATE TABLE releases (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    version    TEXT COLLATE "C" NOT NULL UNIQUE,
    digest     TEXT COLLATE "C" NOT NULL UNIQUE, -- of the OCI manifest
    size       BIGINT NOT NULL, -- bytes of all parts
    modules    TEXT NOT NULL, -- JSON
    signers    TEXT NOT NULL, -- JSON
    created_at BIGINT NOT NULL
);

-- What the registry holds. A manifest is small and whole; a blob lies in pieces,
-- under the upload that brought it.
CREATE TABLE release_manifests (
    digest        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    media_type    TEXT NOT NULL,
    artifact_type TEXT NOT NULL,
    subject       TEXT COLLATE "C" NOT NULL, -- digest of what it is about; '': nothing
    content       BYTEA NOT NULL
);
CREATE INDEX release_manifests_of_subject ON release_manifests (subject);
CREATE TABLE release_tags (
    tag    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    digest TEXT COLLATE "C" NOT NULL REFERENCES release_manifests (digest)
);
CREATE TABLE release_blobs (
    digest TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    size   BIGINT NOT NULL,
    upload TEXT COLLATE "C" NOT NULL -- whose pieces it is
);
CREATE TABLE release_uploads (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    size       BIGINT NOT NULL, -- bytes so far
    updated_at BIGINT NOT NULL
);
CREATE TABLE release_pieces (
    upload  TEXT COLLATE "C" NOT NULL,
    start   BIGINT NOT NULL, -- of its first byte in the blob
    content BYTEA NOT NULL,
    PRIMARY KEY (upload, start)
);

CREATE TABLE releases (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    version    TEXT NOT NULL UNIQUE,
    digest     TEXT NOT NULL UNIQUE, -- of the OCI manifest
    size       INTEGER NOT NULL, -- bytes of all parts
    modules    TEXT NOT NULL, -- JSON
    signers    TEXT NOT NULL, -- JSON
    created_at INTEGER NOT NULL
) STRICT;

-- What the registry holds. A manifest is small and whole; a blob lies in pieces,
-- under the upload that brought it.
CREATE TABLE release_manifests (
    digest        TEXT NOT NULL PRIMARY KEY,
    media_type    TEXT NOT NULL,
    artifact_type TEXT NOT NULL,
    subject       TEXT NOT NULL, -- digest of what it is about; '': nothing
    content       BLOB NOT NULL
) STRICT;
CREATE INDEX release_manifests_of_subject ON release_manifests (subject);
CREATE TABLE release_tags (
    tag    TEXT NOT NULL PRIMARY KEY,
    digest TEXT NOT NULL REFERENCES release_manifests (digest)
) STRICT;
CREATE TABLE release_blobs (
    digest TEXT NOT NULL PRIMARY KEY,
    size   INTEGER NOT NULL,
    upload TEXT NOT NULL -- whose pieces it is
) STRICT;
CREATE TABLE release_uploads (
    id         TEXT NOT NULL PRIMARY KEY,
    size       INTEGER NOT NULL, -- bytes so far
    updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE release_pieces (
    upload  TEXT NOT NULL,
    start   INTEGER NOT NULL, -- of its first byte in the blob
    content BLOB NOT NULL,
    PRIMARY KEY (upload, start)
) STRICT;

-- What numbers of changes are of. A node that followed another history than this
-- database's is told to begin afresh.
ALTER TABLE change_counter ADD COLUMN history TEXT NOT NULL DEFAULT '';
ALTER TABLE change_counter ADD COLUMN timeline TEXT NOT NULL DEFAULT ''; -- PostgreSQL's, '' unknown

-- Earlier histories that the present one goes on from, with the last number of each.
CREATE TABLE histories (
    id     TEXT PRIMARY KEY,
    latest INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How much waits, of all nodes and of one: a lead is refused where there is no room.
CREATE INDEX IF NOT EXISTS quarantine_room ON quarantine (state, node_id, size);

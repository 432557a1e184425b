-- When a node was heard is written every half minute. With room in its page such a row
-- is replaced there, without a new entry in each index.
ALTER TABLE nodes SET (fillfactor = 40);

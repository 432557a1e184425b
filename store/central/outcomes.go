package central

import (
	"context"
	"time"

	"partneredge/store"
)

// OutcomesMost is how many deliveries Outcomes looks at.
const OutcomesMost = 10_000

// Outcomes counts by state the newest deliveries of events since a time, at most
// OutcomesMost of them, so that it costs the same however long the log is.
func (db *DB) Outcomes(ctx context.Context, since time.Time) (map[store.State]int, error) {
	const tried = "count outcomes of deliveries"
	if err := checkTimes(since); err != nil {
		return nil, db.fail(tried, err)
	}
	rows, err := db.query(ctx, `SELECT newest.state, count(*)
		FROM (SELECT state FROM deliveries WHERE id >= ? ORDER BY id DESC LIMIT ?) newest GROUP BY newest.state`,
		firstID("dlv", since), OutcomesMost)
	if err != nil {
		return nil, db.fail(tried, err)
	}
	defer func() { _ = rows.Close() }()
	counts := map[store.State]int{}
	for rows.Next() {
		var state store.State
		var n int
		if err := rows.Scan(&state, &n); err != nil {
			return nil, db.fail(tried, err)
		}
		counts[state] = n
	}
	return counts, db.fail(tried, rows.Err())
}

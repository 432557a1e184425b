// Package fleet keeps the nodes, the releases, and the rollouts that say which node is to
// run which release.
package fleet

import "partneredge/store/central/db"

// Fleet reads and writes the records. It is safe for many goroutines.
type Fleet struct{ db *db.DB }

// New makes the Fleet of a database, whose transactions have a Batch.
func New(d *db.DB) *Fleet { return &Fleet{db: d} }

// Batch gathers work that a shared transaction does at its end.
type Batch interface {
	db.Batch
	// RolloutWritten makes the commit say that nodes may have other releases to run.
	RolloutWritten()
}

// written returns the record of a write, and with an error none.
func written[T any](record T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return record, nil
}

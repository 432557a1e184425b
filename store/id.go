package store

import (
	"crypto/rand"
	"time"

	"partneredge/wasm/typeid"
)

// NewID returns a new identifier such as acc_01h455vb4pex5vsknk084sn02q.
// Identifiers of one prefix sort by now.
func NewID(prefix string, now time.Time) string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return typeid.Make(prefix, now.UnixMilli(), random)
}

// NewAttemptID returns the identifier of an attempt of a delivery. It begins with the
// delivery's time, by which the log finds the attempt without an index of its own.
func NewAttemptID(deliveryID string, now time.Time) string {
	if milli, ok := typeid.UnixMilli(deliveryID); ok {
		now = time.UnixMilli(milli)
	}
	return NewID("dlv", now)
}

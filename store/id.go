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

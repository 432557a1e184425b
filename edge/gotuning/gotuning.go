// Package gotuning sets Go's garbage collector and GOMAXPROCS to what a node that
// serves requests wants. The environment's GOGC and GOMAXPROCS prevail.
package gotuning

import "context"

// Start tunes this process until stop is called.
func Start(ctx context.Context) (stop func()) {
	stopGC, stopProcs := tuneGC(ctx), raiseGOMAXPROCS()
	return func() { stopGC(); stopProcs() }
}

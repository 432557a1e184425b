// Package gotuning sets Go's garbage collector, GOMAXPROCS and its profile of memory to
// what a node that serves requests wants. The environment's GOGC and GOMAXPROCS prevail.
package gotuning

import (
	"context"
	"runtime"
)

// Start tunes this process until stop is called.
func Start(ctx context.Context) (stop func()) {
	stopGC, stopProcs := tuneGC(ctx), raiseGOMAXPROCS()
	profileRate := runtime.MemProfileRate
	runtime.MemProfileRate = 0 // nothing reads the profile, which takes a MiB
	return func() {
		stopGC()
		stopProcs()
		runtime.MemProfileRate = profileRate
	}
}

package gotuning

import (
	"os"
	"runtime"
)

// raiseGOMAXPROCS sets GOMAXPROCS to what procsFor returns until stop is called,
// unless it is in the environment.
func raiseGOMAXPROCS() (stop func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	before := runtime.GOMAXPROCS(0)
	procs := procsFor(before, runtime.NumCPU())
	if procs == before {
		return func() {}
	}
	runtime.GOMAXPROCS(procs)
	return runtime.SetDefaultGOMAXPROCS
}

// procsFor returns the GOMAXPROCS of a node, given Go's default and the machine's
// processors. A P whose thread is in a short system call, or whose thread the
// kernel has preempted for another process, is held and does nothing: without a
// spare P a processor idles meanwhile. Where a cgroup allows less than the
// processors there are no spare ones: it would stop a process that uses up its
// time too soon.
func procsFor(usual, processors int) int {
	if usual < processors {
		return usual
	}
	return usual + min(usual, maxSpare)
}

// maxSpare bounds the spare Ps: the more there are, the less one that is held
// matters, and each keeps memory of its own.
const maxSpare = 4

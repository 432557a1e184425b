package main

import (
	"os"
	"runtime"
)

// morePlaces has Go run code in as many places as placesFor says until stop is
// called, unless GOMAXPROCS is in the environment.
func morePlaces() (stop func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	before := runtime.GOMAXPROCS(0)
	places := placesFor(before, runtime.NumCPU())
	if places == before {
		return func() {}
	}
	runtime.GOMAXPROCS(places)
	return runtime.SetDefaultGOMAXPROCS
}

// placesFor is in how many places at once a node runs Go code, of how many Go
// takes by itself, and the machine's processors. A place whose thread is in a
// short system call, or waits since the kernel gave its processor to another
// process, is held and does nothing: with no place to spare a processor idles
// meanwhile. Where a cgroup allows less than the processors, none is to spare: it
// stops a process that uses up its time too soon.
func placesFor(usual, processors int) int {
	if usual < processors {
		return usual
	}
	return usual + min(usual, mostSpare)
}

// mostSpare is how many places are to spare at most: the more there are, the less
// one that is held matters, and each keeps memory of its own.
const mostSpare = 4

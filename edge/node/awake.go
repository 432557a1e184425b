package node

import (
	"context"
	"time"
)

// A node that was stopped (SIGSTOP, a debugger, a machine that was suspended)
// goes on as if no time had passed: its connection looks whole and what was
// pushed meanwhile has not been read. Whoever notices first, the watch or a
// request, has the node catch up before anything is served.
const (
	awakeEvery = 100 * time.Millisecond // how often the watch looks
	// asleep is the gap after which the process must have stood still. A watch
	// that is late for want of a processor costs one question to the origin.
	asleep = time.Second
)

// watch notes that the process is awake, until ctx ends.
func (f *follower) watch(ctx context.Context) {
	tick := time.NewTicker(awakeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.mu.Lock()
			f.wake()
			f.mu.Unlock()
		}
	}
}

// wake notes that the process is awake, and begins to catch up when it was not.
// mu is held.
func (f *follower) wake() {
	now := time.Now()
	slept := now.Sub(f.awake) > asleep
	f.awake = now
	if slept && f.phase != away {
		f.log.Warn("process stood still: catching up with origin")
		f.behind()
	}
}

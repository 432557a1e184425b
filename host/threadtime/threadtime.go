// Package threadtime reads the processor time that the calling thread has used.
package threadtime

import "time"

// Reading is the processor time of a thread at a moment. The zero Reading is of none.
type Reading struct {
	thread int32         // the kernel's number of it; 0: none
	used   time.Duration // by the thread since its start
}

// Since returns how much processor time the calling thread has used since before, and
// false if that was read on another thread, or the system cannot tell.
func Since(before Reading) (used time.Duration, ok bool) {
	now := Now()
	if now.thread == 0 || now.thread != before.thread {
		return 0, false
	}
	return now.used - before.used, true
}

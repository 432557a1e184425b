package memory

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watch notices whether a thread has a page fault. A page of an image that is written
// for the first time always costs one, which the kernel counts for the thread that
// wrote. So where the count stays the same, no page was written but those that were
// found before. Other faults only mean that pages are asked for in vain. To read the
// count (getrusage(2), RUSAGE_THREAD) costs a fifth of asking for the pages.
type watch struct {
	counts bool // set where Reset asks for pages; elsewhere nothing is watched
	on     bool
	missed bool // a page fault before the last pause
	usage  unix.Rusage
	before int64
}

// Watch begins a period in which only this goroutine writes to the memory. A Reset
// before Unwatch does not ask for the written pages if none was written for the first
// time. The goroutine keeps its thread, whose count it is, until Unwatch.
func (w *watch) Watch() {
	w.missed = false
	w.Resume()
}

// Pause suspends that period until Resume, while the goroutine waits and nobody writes to
// the memory. Meanwhile the goroutine may change its thread: to wait and keep it costs two
// switches of threads.
func (w *watch) Pause() {
	w.missed = !w.nothingNew()
	if w.counts {
		runtime.UnlockOSThread()
	}
}

// Resume continues the period.
func (w *watch) Resume() {
	if w.counts {
		runtime.LockOSThread()
		w.before, w.on = w.faults()
	}
}

// Unwatch ends the period, and lets the goroutine change its thread again.
func (w *watch) Unwatch() {
	w.on = false
	if w.counts {
		runtime.UnlockOSThread()
	}
}

func (w *watch) nothingNew() bool {
	if !w.on || w.missed {
		return false
	}
	now, ok := w.faults()
	return ok && now == w.before
}

func (w *watch) faults() (n int64, ok bool) {
	_, _, errno := unix.RawSyscall(unix.SYS_GETRUSAGE, unix.RUSAGE_THREAD, uintptr(unsafe.Pointer(&w.usage)), 0)
	return int64(w.usage.Minflt) + int64(w.usage.Majflt), errno == 0
}

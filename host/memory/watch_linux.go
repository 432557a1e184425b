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
	on     bool
	missed bool // a page fault before the last pause
	usage  unix.Rusage
	before int64
}

// start keeps the goroutine on its thread, whose count it is.
func (w *watch) start() {
	w.missed = false
	w.resume()
}

// pause lets the goroutine change its thread until resume. One that waits and must
// keep its thread costs two switches of threads.
func (w *watch) pause() {
	w.missed = !w.nothingNew()
	runtime.UnlockOSThread()
}

func (w *watch) resume() {
	runtime.LockOSThread()
	w.before, w.on = w.faults()
}

func (w *watch) stop() {
	w.on = false
	runtime.UnlockOSThread()
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

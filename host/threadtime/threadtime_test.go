package threadtime

import (
	"runtime"
	"testing"
	"time"
)

func TestSinceCountsComputingAndNotWaiting(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: no thread's processor time is read on this system")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	before := Now()
	for used := time.Duration(0); used < 5*time.Millisecond; { // ends only if computing counts
		var ok bool
		if used, ok = Since(before); !ok {
			t.Fatal("the thread's own reading is of another thread")
		}
	}

	const wait = 300 * time.Millisecond
	before = Now()
	<-time.After(wait)
	if used, ok := Since(before); !ok || used > wait/2 {
		t.Errorf("waiting for %v used %v of the processor (of this thread: %t)", wait, used, ok)
	}
}

func TestSinceKnowsItsThread(t *testing.T) {
	if _, ok := Since(Reading{}); ok {
		t.Error("the zero reading is of the calling thread")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	other := make(chan Reading)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		other <- Now()
	}()
	if _, ok := Since(<-other); ok {
		t.Error("another thread's reading is of the calling thread")
	}
}

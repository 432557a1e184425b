package gotuning

import (
	"runtime"
	"testing"
)

// TestNoMemoryProfile holds that memory is profiled only while a process is not tuned.
func TestNoMemoryProfile(t *testing.T) {
	before := runtime.MemProfileRate
	stop := Start(t.Context())
	if runtime.MemProfileRate != 0 {
		t.Errorf("memory is profiled each %d bytes", runtime.MemProfileRate)
	}
	stop()
	if runtime.MemProfileRate != before {
		t.Errorf("memory is profiled each %d bytes afterwards, was %d", runtime.MemProfileRate, before)
	}
}

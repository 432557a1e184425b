package gotuning

import (
	"runtime"
	"testing"
)

func TestProcsFor(t *testing.T) {
	for _, tt := range []struct{ usual, processors, want int }{
		{1, 1, 2},
		{2, 2, 4},
		{4, 4, 8},
		{64, 64, 68},
		{2, 64, 2}, // a cgroup of two processors
	} {
		if got := procsFor(tt.usual, tt.processors); got != tt.want {
			t.Errorf("Go takes %d of %d processors: %d, want %d", tt.usual, tt.processors, got, tt.want)
		}
	}
}

func TestRaiseGOMAXPROCS(t *testing.T) {
	for _, set := range []string{"", "3"} {
		t.Setenv("GOMAXPROCS", set)
		before := runtime.GOMAXPROCS(0)
		want := before
		if set == "" {
			want = procsFor(before, runtime.NumCPU())
		}
		stop := raiseGOMAXPROCS()
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("with GOMAXPROCS=%q: %d, want %d", set, got, want)
		}
		stop()
		if got := runtime.GOMAXPROCS(0); got != before {
			t.Errorf("with GOMAXPROCS=%q: %d left behind, was %d", set, got, before)
		}
	}
}

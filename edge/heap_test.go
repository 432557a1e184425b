package main

import "testing"

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[uint64]int{
		0:          6300,
		4 * mib:    6300,
		32 * mib:   700,
		64 * mib:   300,
		127 * mib:  101,
		128 * mib:  100,
		2000 * mib: 100,
	} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live/mib, got, want)
		}
	}
}

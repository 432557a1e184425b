package gotuning

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
		if got := gcPercent(live, 256*mib); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live/mib, got, want)
		}
	}
}

func TestHeapFloor(t *testing.T) {
	const mib = 1 << 20
	for memory, want := range map[uint64]uint64{
		256 * mib:     32 * mib,
		512 * mib:     64 * mib,
		8192 * mib:    64 * mib,
		1 << 20 * mib: 64 * mib,
	} {
		if got := heapFloor(memory); got != want {
			t.Errorf("%d MiB to use: %d MiB, want %d", memory/mib, got/mib, want/mib)
		}
	}
	if got := usableMemory(); got < 64*mib {
		t.Errorf("this machine has %d bytes", got)
	}
}

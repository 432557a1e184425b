package harness

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// TestMemoryIsReadBesideTheLoad: what a server has only during the load is what counts, and an
// error of either has no figure.
func TestMemoryIsReadBesideTheLoad(t *testing.T) {
	var loaded atomic.Bool
	read := make(chan struct{})
	load := func() error {
		loaded.Store(true)
		defer loaded.Store(false)
		for range 2 { // the one that was under way may have begun before the load
			select {
			case <-read:
			case <-time.After(10 * time.Second):
				return errors.New("nobody reads the size during the load")
			}
		}
		return nil
	}
	size := func() (float64, error) {
		now := 50.
		if loaded.Load() {
			now = 90
		}
		select {
		case read <- struct{}{}:
		default: // the load has ended
		}
		return now, nil
	}
	if most, err := MostBeside(time.Millisecond, load, size); most != 90 || err != nil {
		t.Errorf("%v, %v, want 90", most, err)
	}

	failed := errors.New("no such process")
	if _, err := MostBeside(time.Millisecond, func() error { return failed }, size); !errors.Is(err, failed) {
		t.Errorf("the load failed: %v", err)
	}
	ends := make(chan struct{})
	calls := 0
	if _, err := MostBeside(time.Millisecond, func() error {
		select {
		case <-ends:
		case <-time.After(10 * time.Second):
		}
		return nil
	}, func() (float64, error) {
		if calls++; calls == 1 {
			close(ends)
			return 0, failed
		}
		return 0, nil
	}); !errors.Is(err, failed) {
		t.Errorf("the size could not be read: %v", err)
	}
}

package release

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"oras.land/oras-go/v2/content/oci"

	"partneredge/store/durable"
)

// TestPacksAtTheSameTime: all of those that are packed into one layout are in it.
func TestPacksAtTheSameTime(t *testing.T) {
	dir, modules := t.TempDir(), modulesDir(t, "", "gate")
	var packing sync.WaitGroup
	for i := range 8 {
		packing.Go(func() {
			unlock, err := LockLayout(t.Context(), dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			layout, err := oci.NewWithContext(t.Context(), dir)
			if err == nil {
				_, err = Pack(t.Context(), layout, modules, fmt.Sprintf("1.0.%d", i))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	packing.Wait()
	layout, err := OpenLayout(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		if _, err := layout.Resolve(t.Context(), fmt.Sprintf("1.0.%d", i)); err != nil {
			t.Error(err)
		}
	}

	unlock, err := LockLayout(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := LockLayout(ctx, dir); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a layout that is locked: %v", err)
	}
}

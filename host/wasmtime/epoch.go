//go:build wasmtime

package wasmtime

// #include "epoch.h"
import "C"

import (
	"errors"
	"reflect"
	"runtime/cgo"
	"time"
)

// epoch is the unit in which guests are interrupted.
const epoch = time.Millisecond

// stretch is for how long a guest computes until its meter is asked again: so
// the meter can tell computing from waiting for a processor.
const stretch = 2 * epoch

// count counts epochs until stop.
func (e *wasmtimeEngine) count() {
	ticker := time.NewTicker(epoch)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			e.engine.IncrementEpoch()
		case <-e.stop:
			return
		}
	}
}

// ask makes the instance's store ask its meter when its epochs are over; left to
// itself it would end the call. The Go package has no function for it, and the
// store's pointer is to be had only from its field.
func (i *instance) ask() error {
	field := reflect.ValueOf(i.store).Elem().FieldByName("_ptr")
	if field.Kind() != reflect.Pointer {
		return errors.New("the store is not as in wasmtime-go v44")
	}
	i.handle = cgo.NewHandle(i)
	C.edge_ask(field.UnsafePointer(), C.uintptr_t(i.handle))
	return nil
}

// edgeLeft is how many epochs the guest may go on for, 0 when it may not.
//
//export edgeLeft
func edgeLeft(handle C.uintptr_t) C.uint64_t {
	i := cgo.Handle(handle).Value().(*instance)
	left := i.left()
	i.interrupted = left == 0
	return C.uint64_t(left)
}

// left is how many epochs the guest may go on for, until the meter is asked.
func (i *instance) left() uint64 {
	left := i.ctx.Left()
	if left <= 0 {
		return 0
	}
	// Rounded up, and one more for the epoch that is running out.
	return uint64((min(left, stretch)+epoch-1)/epoch) + 1
}

// arm lets the guest begin, or go on after a call to the host.
func (i *instance) arm() { i.store.SetEpochDeadline(i.left()) }

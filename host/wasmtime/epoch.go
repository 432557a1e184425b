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

// maxStretch is for how long a guest computes until its context is asked again, which
// so can tell computing from waiting for a processor.
const maxStretch = 2 * epoch

// countEpochs counts epochs until Close.
func (e *wasmtimeEngine) countEpochs() {
	ticker := time.Tick(epoch)
	for {
		select {
		case <-ticker:
			e.engine.IncrementEpoch()
		case <-e.stop:
			return
		}
	}
}

// setCallback makes the instance's store call edgeEpochsLeft when its epochs are over;
// by itself it would end the call. The Go package has no function for it, and gives
// the store's pointer only in its field.
func (i *instance) setCallback() error {
	field := reflect.ValueOf(i.store).Elem().FieldByName("_ptr")
	if field.Kind() != reflect.Pointer {
		return errors.New("the store is not as in wasmtime-go v44")
	}
	i.handle = cgo.NewHandle(i)
	C.edge_set_callback(field.UnsafePointer(), C.uintptr_t(i.handle))
	return nil
}

// edgeEpochsLeft returns for how many epochs the guest may go on, 0 when it may not.
//
//export edgeEpochsLeft
func edgeEpochsLeft(handle C.uintptr_t) C.uint64_t {
	i := cgo.Handle(handle).Value().(*instance)
	left := i.epochsLeft()
	i.interrupted = left == 0
	return C.uint64_t(left)
}

// epochsLeft returns for how many epochs the guest may go on until its context is
// asked again.
func (i *instance) epochsLeft() uint64 {
	left := i.ctx.TimeLeft()
	if left <= 0 {
		return 0
	}
	// Rounded up, and one more for the epoch that is running out.
	return uint64((min(left, maxStretch)+epoch-1)/epoch) + 1
}

// setDeadline lets the guest begin, or go on after a call to the host.
func (i *instance) setDeadline() { i.store.SetEpochDeadline(i.epochsLeft()) }

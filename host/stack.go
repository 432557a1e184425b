package host

import "errors"

// The stack of a guest's calls. Under the default engine it lies in Go's heap, outside
// the memory that Config.Memory counts: it doubles when it is full, up to 100 MB, and
// the sandbox keeps it. So it is looked at whenever the guest asks the host for
// something, and for fuel at the latest. Guests compiled from Go have their own stack
// in linear memory, and use a few hundred bytes of this one for each call.
//
// A stack begins with 10 KiB, and grows to twice its size and the frame that needs room:
// where frames are small, to little more than 20, 40, 80, 160 and 320 KiB. So a call in
// fact goes on with some 160 KiB and ends at the step to 320; a sandbox is kept with 40.
const (
	maxStack  = 256 << 10 // bytes; the stack of a call that goes on
	keptStack = 64 << 10  // bytes; the stack of an idle sandbox
)

var errStackOverflow = errors.New("stack overflow")

// checkStack ends the call if its stack has grown too large.
func (c *call) checkStack() {
	if c.function != nil && c.function.StackSize() > maxStack {
		c.stop(Trap, errStackOverflow)
	}
}

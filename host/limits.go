package host

import (
	"errors"
	"time"
)

// Limits bound what one module may use. A zero field takes its default.
type Limits struct {
	// CPU is how long a call may compute, calls to the host not counted, and a warm-up that
	// is repeated for each sandbox. Default DefaultCPU.
	// Less than 0: for ever, and meanwhile nothing else may run on its processor: only
	// for measuring what the limit costs.
	CPU time.Duration
	// Wall is how long a call may take from the moment that it has a sandbox; the
	// context's deadline counts too. Default 10 s.
	Wall time.Duration
	// Memory is the most bytes of linear memory that a sandbox may have, rounded down
	// to whole pages of 64 KiB. memory.grow beyond it fails in the guest. Default
	// 64 MiB.
	Memory int
	// Response is the most bytes that a response frame may have. Default 1 MiB.
	Response int
	// HostCalls is the most calls to the host, WASI's included, that a call may make.
	// Default 1 000.
	HostCalls int
	// Log is the most bytes that a call may log, standard output and error included;
	// each record counts as 32 more. In a warm-up the rest is left out. Default
	// 16 KiB.
	Log int
	// Sockets is the most sockets that a call may open, those that it closed again
	// counted; opening another fails in the guest. They are for modules with an
	// allow_dial. Default 8.
	Sockets int
	// SocketBytes is the most bytes that a call may read from and write to sockets
	// together. Default 4 MiB.
	SocketBytes int
	// Sandboxes is the most sandboxes that the module may have at once. Calls beyond
	// wait. Default 64.
	Sandboxes int
	// Wait is the longest that a call waits for a free sandbox; the context's deadline
	// counts too. Default 2 s.
	Wait time.Duration
}

// DefaultCPU is the default of Limits.CPU.
const DefaultCPU = 50 * time.Millisecond

func (l Limits) withDefaults() Limits {
	if l.CPU >= 0 {
		setDefault(&l.CPU, DefaultCPU)
	}
	setDefault(&l.Wall, 10*time.Second)
	setDefault(&l.Memory, 64<<20)
	setDefault(&l.Response, 1<<20)
	setDefault(&l.HostCalls, 1000)
	setDefault(&l.Log, 16<<10)
	setDefault(&l.Sockets, 8)
	setDefault(&l.SocketBytes, 4<<20)
	setDefault(&l.Sandboxes, 64)
	setDefault(&l.Wait, 2*time.Second)
	return l
}

// setDefault gives a field that is zero or less its default.
func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

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

package prepare

import (
	"errors"
	"fmt"
)

// Bounds of a function. Engines compile one at a time, in time and memory that can grow
// by the square of its length, and of what its blocks may carry from one to another.
const (
	// MaxFunction is the most bytes of code that a function may have.
	MaxFunction = 64 << 10
	// maxCarried bounds the locals of a function, times its blocks and the branches to
	// their ends. Compilers come to 58 000 where they optimize. Where they do not, they
	// may come to more at no cost: their locals are then carried nowhere.
	maxCarried = 1 << 20
	// maxLoops bounds the loops of a function, which take an engine long without any
	// locals too. Compilers come to 53.
	maxLoops = 1000
)

const advice = "build the module optimized, or split the function"

// functionCode reads the code of the nth function that a module defines.
func (r *reader) functionCode(nth int) *reader {
	at := r.at
	length := r.u32()
	if length > MaxFunction {
		r.tooCostly(at, "function %d of those it defines has %d bytes of code, more than %d: "+advice, nth, length, MaxFunction)
	}
	return r.sub(int(length))
}

// checkBlocks fails at the start of a function that has too many loops, or too many locals
// and blocks. What blocks carry by their types is bounded by maxValues, and adds little.
func (c *codeRewriter) checkBlocks(start int) {
	if c.loops > maxLoops {
		c.r.tooCostly(start, "function has %d loops, more than %d: "+advice, c.loops, maxLoops)
	}
	if n := uint64(c.locals) * uint64(c.edges); n > maxCarried {
		c.r.tooCostly(start, "function has %d locals and %d blocks and branches, the product of which is more than %d: "+advice, c.locals, c.edges, maxCarried)
	}
}

// tooCostly is fail for what an engine would take too long to compile.
func (r *reader) tooCostly(at int, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Offset: at, What: fmt.Sprintf(format, args...), costly: true}
	}
}

// CheckCost returns an error when an engine would take too long to compile one of a
// module's functions, for which Rewrite refuses it. It finds no other fault.
func CheckCost(wasm []byte) error {
	_, err := Rewrite(wasm, Options{})
	if e, ok := errors.AsType[*Error](err); ok && e.costly {
		return err
	}
	return nil
}

package prepare

import "slices"

// Indirect calls. An engine fills the table of each instance entry by entry,
// which is most of what an instance costs. A table that only call_indirect
// comes to stays what it is at the start, so there need be none: call_indirect
// becomes the call of a function that is added for its type, which branches on
// the index to calls of what would stand there:
//
//	(func (param … i32) (result …)
//	  (block $no (block $g (block $f
//	    (br_table $f $no $g $no (i32.sub (local.get index) (i32.const first))))
//	    (return (call $f …)))   ;; behind $f
//	    (return (call $g …)))   ;; behind $g
//	  (call_indirect (type …) … index))  ;; behind $no: the table is empty, it traps
//
// The table stays if it is imported or exported, if code names it or a segment in
// any other way, or makes a reference to a function; if a segment is not active,
// lies outside, or its place or an element is no plain number or function; and if
// what would be added is too much: see the limits.

const (
	mostElements = 1 << 14 // of the table
	mostBranches = 1 << 15 // of all functions that are added
	mostValues   = 64      // that a type takes and gives
)

// noTable is the content of a table section with an empty table.
var noTable = []byte{1, funcref, 1, 0, 0}

// indirectCalls is what is known of the table, and what was added for it.
type indirectCalls struct {
	fixed       bool                   // there is one table, and only call_indirect comes to it
	elements    []uint32               // what it starts with: 0, or 1 and a function's index
	places      map[signature][]uint32 // of the elements of each type
	dispatchers map[signature]uint32
	types       []uint32 // of each dispatcher
	bodies      [][]byte
	branches    int // in all bodies
}

// table is told of the one table.
func (c *indirectCalls) table(size uint32) {
	if size <= mostElements {
		c.fixed, c.elements = true, make([]uint32, size)
	}
}

// put puts the element that r reads, an index or an expression, in its place.
func (c *indirectCalls) put(place uint64, r reader, expression bool) {
	if !c.fixed {
		return
	}
	op, end := byte(0xd2), byte(0x0b)
	if expression {
		op = r.byte()
	}
	i := r.u32()
	if expression {
		end = r.byte()
	}
	switch {
	case !r.ok() || end != 0x0b || place >= uint64(len(c.elements)):
		c.fixed = false
	case op == 0xd2: // ref.func
		c.elements[place] = i + 1
	case op == 0xd0 && i == funcref: // ref.null
		c.elements[place] = 0
	default:
		c.fixed = false
	}
}

// dispatcher is the index of the function that stands for call_indirect of a type.
func (p *preparer) dispatcher(t uint32) uint32 {
	c, of := &p.calls, p.types[t]
	if i, ok := c.dispatchers[of]; ok {
		return i
	}
	if c.dispatchers == nil {
		c.dispatchers, c.places = map[signature]uint32{}, map[signature][]uint32{}
		for i, e := range c.elements {
			if e != 0 {
				t := p.types[p.typeOf[e-1]]
				c.places[t] = append(c.places[t], uint32(i))
			}
		}
	}
	var first, span uint32
	places := c.places[of]
	if n := len(places); n > 0 {
		first = places[0]
		span = places[n-1] - first + 1
	}
	if c.branches += int(span); c.branches > mostBranches || len(of.params)+len(of.results) > mostValues {
		c.fixed = false
		return 0
	}
	// A block for each function, the innermost for the first.
	var functions []uint32
	blocks := map[uint32]uint32{}
	for _, at := range places {
		e := c.elements[at]
		if _, ok := blocks[e]; !ok {
			blocks[e] = uint32(len(functions))
			functions = append(functions, p.moved(e-1))
		}
	}
	branches := slices.Repeat([]uint32{uint32(len(functions))}, int(span))
	for _, at := range places {
		branches[at-first] = blocks[c.elements[at]]
	}
	added := uint32(p.functions) + p.added + uint32(len(c.bodies))
	c.dispatchers[of] = added
	c.types = append(c.types, p.newType(signature{of.params + "\x7f", of.results}))
	c.bodies = append(c.bodies, dispatch(t, len(of.params), int64(first), branches, functions))
	return added
}

// dispatch is a dispatcher's code: an index branches from first on to the block
// of one of functions, or to the one behind them.
func dispatch(t uint32, params int, first int64, branches, functions []uint32) []byte {
	arguments := func(out []byte, n int) []byte {
		for i := range n {
			out = appendU32(append(out, 0x20), uint32(i)) // local.get
		}
		return out
	}
	out := []byte{0} // no locals
	for range len(functions) + 1 {
		out = append(out, 0x02, 0x40) // block
	}
	out = appendU32(append(out, 0x20), uint32(params))        // local.get
	out = append(appendS64(append(out, 0x41), first), 0x6b)   // i32.const, i32.sub
	out = appendU32(append(out, 0x0e), uint32(len(branches))) // br_table
	for _, block := range branches {
		out = appendU32(out, block)
	}
	out = appendU32(out, uint32(len(functions)))
	for _, f := range functions {
		out = arguments(append(out, 0x0b), params)          // end
		out = append(appendU32(append(out, 0x10), f), 0x0f) // call, return
	}
	out = arguments(append(out, 0x0b), params+1)            // end
	return append(appendU32(append(out, 0x11), t), 0, 0x0b) // call_indirect, end
}

package prepare

import "slices"

// Indirect calls. An engine fills the table of each instance entry by entry, which
// is most of what an instance costs. A table that only call_indirect uses stays as it
// starts, so there need be none: call_indirect becomes the call of a dispatcher, a
// function that is added for its type and that branches on the index to direct calls
// of the elements:
//
//	(func (param … i32) (result …)
//	  (block $no (block $g (block $f
//	    (br_table $f $no $g $no (i32.sub (local.get index) (i32.const first))))
//	    (return (call $f …)))   ;; behind $f
//	    (return (call $g …)))   ;; behind $g
//	  (call_indirect (type …) … index))  ;; behind $no: the table is empty, it traps
//
// The table stays where it is imported or exported, where code names it or one of its
// segments in any other way, or makes a reference to a function; where a segment is
// not active or lies outside the table, or its offset or an element is no plain number
// or function; and where more would be added than the limits below.

const (
	maxElements = 1 << 14 // of the table
	maxBranches = 1 << 15 // of all dispatchers
)

// noTable is the content of a table section with an empty table.
var noTable = []byte{1, funcref, 1, 0, 0}

// indirectCalls collects what is known of the table, and the dispatchers that were
// added for it.
type indirectCalls struct {
	fixed       bool                   // there is one table, and only call_indirect uses it
	elements    []uint32               // at the start: 0, or 1 and a function's index
	indices     map[signature][]uint32 // of the elements of each type
	dispatchers map[signature]uint32
	branches    int // in all of them
}

// setTable records the size of the only table.
func (c *indirectCalls) setTable(size uint32) {
	if size <= maxElements {
		c.fixed, c.elements = true, make([]uint32, size)
	}
}

// setElement records the element that r reads, a function's index or an expression.
func (c *indirectCalls) setElement(index uint64, r reader, expression bool) {
	if !c.fixed {
		return
	}
	op, end := byte(opRefFunc), byte(opEnd)
	if expression {
		op = r.byte()
	}
	i := r.u32()
	if expression {
		end = r.byte()
	}
	switch {
	case !r.ok() || end != opEnd || index >= uint64(len(c.elements)):
		c.fixed = false
	case op == opRefFunc:
		c.elements[index] = i + 1
	case op == opRefNull && i == funcref:
		c.elements[index] = 0
	default:
		c.fixed = false
	}
}

// sortElements sorts the elements by their type.
func (p *rewriter) sortElements() {
	c := &p.calls
	c.dispatchers, c.indices = map[signature]uint32{}, map[signature][]uint32{}
	for i, e := range c.elements {
		if e != 0 {
			t := p.types[p.typeOf[e-1]]
			c.indices[t] = append(c.indices[t], uint32(i))
		}
	}
}

// dispatcher returns the index of the function that takes the place of call_indirect
// of a type.
func (p *rewriter) dispatcher(t uint32) uint32 {
	c, of := &p.calls, p.types[t]
	if i, ok := c.dispatchers[of]; ok {
		return i
	}
	if c.dispatchers == nil {
		p.sortElements()
	}
	var first, span uint32
	indices := c.indices[of]
	if n := len(indices); n > 0 {
		first = indices[0]
		span = indices[n-1] - first + 1
	}
	if c.branches += int(span); c.branches > maxBranches {
		c.fixed = false
		return 0
	}
	// A block for each function, the innermost for the first.
	var functions []uint32
	blocks := map[uint32]uint32{}
	for _, i := range indices {
		e := c.elements[i]
		if _, ok := blocks[e]; !ok {
			blocks[e] = uint32(len(functions))
			functions = append(functions, p.moved(e-1))
		}
	}
	branches := slices.Repeat([]uint32{uint32(len(functions))}, int(span))
	for _, i := range indices {
		branches[i-first] = blocks[c.elements[i]]
	}
	added := p.addFunction(signature{of.params + "\x7f", of.results},
		dispatch(t, len(of.params), int64(first), branches, functions))
	c.dispatchers[of] = added
	return added
}

// dispatch returns a dispatcher's code. branches are the blocks of the indices from
// first on; the block behind all functions is that of indices without an element.
func dispatch(t uint32, params int, first int64, branches, functions []uint32) []byte {
	arguments := func(out []byte, n int) []byte {
		for i := range n {
			out = appendU32(append(out, opLocalGet), uint32(i))
		}
		return out
	}
	out := []byte{0} // no locals
	for range len(functions) + 1 {
		out = append(out, opBlock, noResult)
	}
	out = appendU32(append(out, opLocalGet), uint32(params))
	out = append(appendS64(append(out, opI32Const), first), opI32Sub)
	out = appendU32(append(out, opBrTable), uint32(len(branches)))
	for _, block := range branches {
		out = appendU32(out, block)
	}
	out = appendU32(out, uint32(len(functions)))
	for _, f := range functions {
		out = arguments(append(out, opEnd), params)
		out = append(appendU32(append(out, opCall), f), opReturn)
	}
	out = arguments(append(out, opEnd), params+1)
	return append(appendU32(append(out, opCallIndirect), t), 0, opEnd)
}

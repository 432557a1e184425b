package prepare

// Bulk operations. One that fills or copies much memory runs for as long as it takes,
// so with fuel it becomes the call of a function that is added, and that does it in
// pieces, each of which is charged for:
//
//	(func (param to second n)
//	  (if (n > piece && to + n <= the memory's size && …)  ;; else it traps below
//	    (loop
//	      n -= piece
//	      operation(to + n, second + n, piece)  ;; the last first: it traps if any does
//	      (br_if (n > piece))))
//	  operation(to, second, n))
//
// A copy to a lower address begins with the first piece, for it may overlap. Nothing
// is written where the whole operation traps. Operations on tables stay whole: a table
// has at most tableLimit elements, or as many as it starts with.

const (
	pieceShift = 15 // 32 KiB
	piece      = 1 << pieceShift
	pageShift  = 16
)

// bulk is an operation on memory that is cut into pieces.
type bulk struct {
	op    string // the instruction
	moves bool   // its second parameter is an address, or an offset into a segment
	up    bool   // both are addresses of the memory: it may overlap
}

var (
	bulkCopy = bulk{"\xfc\x0a\x00\x00", true, true}
	bulkFill = bulk{"\xfc\x0b\x00", false, false}
)

func bulkInit(segment uint32) bulk {
	return bulk{string(append(appendU32([]byte{opMisc, 8}, segment), 0)), true, false}
}

// bulkFunction returns the index of the function that takes the place of an operation.
func (p *rewriter) bulkFunction(b bulk) uint32 {
	if i, ok := p.bulks[b]; ok {
		return i
	}
	if p.bulks == nil {
		p.bulks = map[bulk]uint32{}
	}
	i := p.addFunction(signature{params: "\x7f\x7f\x7f"}, p.bulkCode(b))
	p.bulks[b] = i
	return i
}

const ( // locals of the function
	bulkTo = iota
	bulkSecond
	bulkLength
)

// bulkCode returns the function's code.
func (p *rewriter) bulkCode(b bulk) []byte {
	out := []byte{0} // no locals
	out = append(out, opLocalGet, bulkLength)
	out = append(appendS64(append(out, opI32Const), piece), opI32GtU, opIf, noResult)
	out = b.fits(out, bulkTo, true)
	if b.moves {
		out = append(b.fits(out, bulkSecond, b.up), opI32And)
	}
	out = append(out, opIf, noResult)
	if b.up {
		out = append(out, opLocalGet, bulkTo, opLocalGet, bulkSecond, opI32LeU, opIf, noResult)
		out = append(p.bulkUpwards(out, b), opElse)
		out = append(p.bulkDownwards(out, b), opEnd)
	} else {
		out = p.bulkDownwards(out, b)
	}
	out = append(out, opEnd, opEnd)
	out = p.chargeLength(out, bulkLength, bytesPerFuel)
	out = append(out, opLocalGet, bulkTo, opLocalGet, bulkSecond, opLocalGet, bulkLength)
	return append(append(out, b.op...), opEnd)
}

// fits appends the code that tells whether a local and the length add up to no more
// than the memory's size, or to a number of 32 bits.
func (bulk) fits(out []byte, local byte, memory bool) []byte {
	out = append(out, opLocalGet, local, opI64ExtendI32U, opLocalGet, bulkLength, opI64ExtendI32U, opI64Add)
	if memory {
		return append(out, opMemorySize, 0, opI64ExtendI32U, opI64Const, pageShift, opI64Shl, opI64LeU)
	}
	return append(appendS64(append(out, opI64Const), 1<<32-1), opI64LeU)
}

// bulkDownwards appends the loop that begins with the last piece.
func (p *rewriter) bulkDownwards(out []byte, b bulk) []byte {
	out = append(out, opLoop, noResult)
	out = bulkAdvance(out, bulkLength, opI32Sub)
	out = append(out, opLocalGet, bulkTo, opLocalGet, bulkLength, opI32Add, opLocalGet, bulkSecond)
	if b.moves {
		out = append(out, opLocalGet, bulkLength, opI32Add)
	}
	out = append(appendS64(append(out, opI32Const), piece), b.op...)
	return p.bulkAgain(out)
}

// bulkUpwards appends the loop that begins with the first piece.
func (p *rewriter) bulkUpwards(out []byte, b bulk) []byte {
	out = append(out, opLoop, noResult, opLocalGet, bulkTo, opLocalGet, bulkSecond)
	out = append(appendS64(append(out, opI32Const), piece), b.op...)
	out = bulkAdvance(out, bulkTo, opI32Add)
	out = bulkAdvance(out, bulkSecond, opI32Add)
	out = bulkAdvance(out, bulkLength, opI32Sub)
	return p.bulkAgain(out)
}

// bulkAdvance appends the code that changes a local by a piece.
func bulkAdvance(out []byte, local, op byte) []byte {
	out = append(out, opLocalGet, local)
	return append(appendS64(append(out, opI32Const), piece), op, opLocalSet, local)
}

// bulkAgain appends the end of a loop over pieces, which charges for one.
func (p *rewriter) bulkAgain(out []byte) []byte {
	out = appendU32(append(out, opGlobalGet), p.fuel)
	out = append(appendS64(append(out, opI32Const), piece>>bytesPerFuel), opI32Sub)
	out = appendU32(append(out, opGlobalSet), p.fuel)
	out = p.refuelBelowZero(appendU32(append(out, opGlobalGet), p.fuel))
	out = append(out, opLocalGet, bulkLength)
	return append(appendS64(append(out, opI32Const), piece), opI32GtU, opBrIf, 0, opEnd)
}

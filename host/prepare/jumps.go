package prepare

import (
	"bytes"
	"slices"
)

// Jumps. WebAssembly has no goto. So Go's compiler makes a loop of a function, around
// one block for each place that is jumped to, and a local holds the number of the place
// where the next iteration goes on:
//
//	(loop $head
//	  (block $2 (block $1 (block $0
//	    (br_table $0 $1 $2 (local.get number)))                     ;; goto number
//	    … (if (then (local.set number (i32.const 2)) (br $head))))  ;; behind $0: if … goto 2
//	    … (local.set number (i32.const 1)) (br $head)))             ;; behind $1: goto 1
//	  …)                                                            ;; behind $2
//
// Most jumps go forward, to the end of a block that is still open. Such a jump becomes
// a branch to that block, which neither pays for the loop's head nor goes by its table:
//
//	… (br_if $2 …)
//
// What still reaches the head is a call, which begins at number 0, or a jump back. These
// numbers are tested before the br_table, whose jump a processor foresees badly.
//
// The result is the code of a function like any other, which is then divided into regions
// of fuel. Every way back leads through the loop's head still, and so by a check.

// maxTests bounds the numbers that are tested at the loop's head.
const maxTests = 4

// jumpLoop is a loop of that form.
type jumpLoop struct {
	local  uint32   // that holds the number
	read   int      // where the local.get before the br_table begins
	blocks int      // around the br_table
	labels []uint32 // of the br_table: the last is that of all further numbers
}

// label returns the label of a number at the br_table. It is false where that is none
// of the loop's blocks.
func (l *jumpLoop) label(number uint32) (label int, ok bool) {
	to := l.labels[min(uint64(number), uint64(len(l.labels)-1))]
	return int(to), uint64(to) < uint64(l.blocks)
}

// directJump is a jump that becomes a branch to a block.
type directJump struct {
	br, end int    // its br instruction
	ifAt    int    // the if that holds nothing else; -1: there is none
	label   uint32 // of the block, in place of the loop's
}

// jumpScan reads a function's code and collects its jumps.
type jumpScan struct {
	r     reader
	last  [3]int // where the instructions before the next one begin; -1: not known
	depth int    // blocks that are open, and the function
	loops bool   // there is another loop before the one that was found

	loop   jumpLoop // no blocks: none was found
	at     int      // how many blocks are around the loop
	open   int      // of its blocks
	inside bool     // the loop is open
	fresh  bool     // the number was set, and no label is since
	// kept means that a jump that does not reach the head must set the number too, since
	// something else may read it, or reach the head without setting it.
	kept  bool
	jumps []directJump
	back  []uint32 // the numbers that are jumped to from behind
}

// directJumps returns a function's code, with its locals, where jumps have become
// branches; nil where it has none, or is not valid.
func directJumps(code []byte) []byte {
	if !bytes.Contains(code, []byte{opLoop, noResult, opBlock, noResult}) {
		return nil
	}
	s := jumpScan{r: reader{b: code}, last: [3]int{-1, -1, -1}, depth: 1}
	for range s.r.count() {
		s.r.u32()
		s.r.byte()
	}
	for s.depth > 0 && s.r.ok() {
		s.instruction()
	}
	if !s.r.ok() || s.r.at != len(code) || s.loop.blocks == 0 {
		return nil
	}
	return s.rewrite()
}

// instruction reads the next instruction.
func (s *jumpScan) instruction() {
	r, start := &s.r, s.r.at
	op, _, of := readOp(r)
	switch of {
	case 0:
		r.fail(start, "opcode is not known")
	case block, ifMark, loopHead:
		r.skipLEB(5)
		s.depth++
		s.fresh = s.fresh && of != loopHead
		if of == loopHead && s.loop.blocks == 0 && !s.findLoop() {
			s.loops = true
		}
	case elseMark:
		s.fresh = false
	case endMark:
		s.fresh = false
		s.close()
	case label:
		s.branch(start, op, r.u32())
	case labels:
		for range r.count() + 1 {
			if s.isHead(r.u32()) {
				s.kept = true
			}
		}
	case local:
		s.useLocal(start, op, r.u32())
	default:
		skipImmediates(r, of)
	}
	s.last = [3]int{s.last[1], s.last[2], start}
}

// useLocal notes a use of a local, at start.
func (s *jumpScan) useLocal(start int, op byte, local uint32) {
	switch {
	case s.loop.blocks == 0 || local != s.loop.local:
	case op != opLocalGet:
		s.fresh = true
	case !s.fresh && start != s.loop.read:
		s.kept = true
	}
}

// findLoop looks whether the loop that was just opened has the form.
func (s *jumpScan) findLoop() bool {
	r := s.r
	if r.b[r.at-1] != noResult {
		return false
	}
	var l jumpLoop
	for ; bytes.HasPrefix(r.b[r.at:], []byte{opBlock, noResult}); r.at += 2 {
		l.blocks++
	}
	l.read = r.at
	if l.blocks == 0 || r.byte() != opLocalGet {
		return false
	}
	if l.local = r.u32(); r.byte() != opBrTable {
		return false
	}
	for range r.count() + 1 {
		l.labels = append(l.labels, r.u32())
	}
	if !r.ok() {
		return false
	}
	// What an outer loop repeats may have read the local.
	s.loop, s.at, s.open, s.inside, s.kept = l, s.depth-1, l.blocks, true, s.loops
	return true
}

// close closes the innermost block.
func (s *jumpScan) close() {
	s.depth--
	switch {
	case !s.inside || s.depth != s.at+s.open:
	case s.open > 0:
		s.open--
	default:
		s.inside = false
	}
}

// isHead reports whether a label is that of the loop.
func (s *jumpScan) isHead(label uint32) bool {
	return s.inside && int64(s.depth)-1-int64(label) == int64(s.at)
}

// branch notes a br or br_if, at start.
func (s *jumpScan) branch(start int, op byte, to uint32) {
	if !s.isHead(to) {
		return
	}
	number, ok := s.numberSet()
	if op != opBr || !ok {
		s.kept = true
		return
	}
	label, ok := s.loop.label(number)
	switch {
	case !ok:
	case label < s.loop.blocks-s.open: // it is closed
		if len(s.back) < maxTests && !slices.Contains(s.back, number) {
			s.back = append(s.back, number)
		}
	default:
		j := directJump{br: start, end: s.r.at, ifAt: -1, label: to - uint32(s.loop.blocks-label)}
		b := s.r.b
		if at := s.last[0]; at >= 0 && b[at] == opIf && b[at+1] == noResult && s.r.at < len(b) && b[s.r.at] == opEnd {
			j.ifAt = at
		}
		s.jumps = append(s.jumps, j)
	}
}

// numberSet returns the number that the last two instructions set the loop's local to.
func (s *jumpScan) numberSet() (number uint32, ok bool) {
	b, from, set := s.r.b, s.last[1], s.last[2]
	if from < 0 || b[from] != opI32Const || b[set] != opLocalSet {
		return 0, false
	}
	r := reader{b: b, at: from + 1}
	number = uint32(r.s64(5))
	r.at = set + 1
	return number, r.u32() == s.loop.local && r.ok()
}

// rewrite returns the code with its jumps replaced.
func (s *jumpScan) rewrite() []byte {
	code, copied := s.r.b, s.loop.read
	out := append(make([]byte, 0, len(code)+64), code[:copied]...)
	tested := append([]uint32{0}, s.back...)
	for i, number := range tested[:min(len(tested), maxTests)] {
		if label, ok := s.loop.label(number); ok && (i == 0 || number != 0) {
			out = appendU32(append(out, opLocalGet), s.loop.local)
			out = append(appendS64(append(out, opI32Const), int64(int32(number))), opI32Eq, opBrIf)
			out = appendU32(out, uint32(label))
		}
	}
	for _, j := range s.jumps {
		if j.ifAt >= 0 && !s.kept {
			out = appendU32(append(append(out, code[copied:j.ifAt]...), opBrIf), j.label-1)
			copied = j.end + 1 // the end of the if
			continue
		}
		out = appendU32(append(append(out, code[copied:j.br]...), opBr), j.label)
		copied = j.end
	}
	return append(out, code[copied:]...)
}

// skipImmediates skips what follows an opcode that opens no block and names no local or
// label.
func skipImmediates(r *reader, s shape) {
	switch s {
	case none:
	case typed:
		r.bytes(r.count())
	case indirect, access, tabCopy, tabInit:
		r.u32()
		r.u32()
	case accessLane:
		r.u32()
		r.u32()
		r.byte()
	case num64:
		r.skipLEB(10)
	case four:
		r.bytes(4)
	case eight:
		r.bytes(8)
	case sixteen:
		r.bytes(16)
	case lane, zero, memGrow, memFill:
		r.byte()
	case memCopy:
		r.bytes(2)
	case memInit:
		r.u32()
		r.byte()
	default: // an index, or a number of 32 bits
		r.skipLEB(5)
	}
}

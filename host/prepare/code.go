package prepare

// Fuel. Each instruction belongs to the innermost loop that it stands in, or
// to its function. Only a branch to a loop's head goes back, so in one turn of
// a loop no instruction of it runs twice: the head charges for all of them,
// and the function's entry for those outside any loop. What an operation on
// many bytes or elements costs is charged when it is known. As soon as the
// fuel is below zero, tick is called, which gives more or ends the call.

// perFuel is how many instructions one unit of fuel is worth.
const perFuel = 8

// maxCost is the most that fits into four bytes, where it is filled in.
const maxCost = 1<<27 - 1

// charge adds the code that spends fuel, and returns where the amount belongs.
//
//	fuel - cost -> t -> fuel; if t < 0 { fuel = tick() }
func (p *preparer) charge(out []byte, t uint32) (code []byte, patch int) {
	out = appendU32(append(out, 0x23), p.fuel) // global.get
	out = append(out, 0x41)                    // i32.const
	patch = len(out)
	out = append(out, 0x80, 0x80, 0x80, 0x00)
	out = append(out, 0x6b)                    // i32.sub
	out = appendU32(append(out, 0x22), t)      // local.tee
	out = appendU32(append(out, 0x24), p.fuel) // global.set
	out = appendU32(append(out, 0x20), t)      // local.get
	return p.ask(out), patch
}

// ask adds the code that calls tick when the number on the stack is below 0.
func (p *preparer) ask(out []byte) []byte {
	out = append(out, 0x41, 0x00, 0x48, 0x04, 0x40) // i32.const 0, i32.lt_s, if
	out = appendU32(append(out, 0x10), p.tick)      // call
	out = appendU32(append(out, 0x24), p.fuel)      // global.set
	return append(out, 0x0b)                        // end
}

// chargeLength adds the code that spends fuel for the length that lies on top
// of the stack, and leaves it there.
func (p *preparer) chargeLength(out []byte, t uint32, shift byte) []byte {
	if p.options.Unmetered {
		return out
	}
	out = appendU32(append(out, 0x21), t)         // local.set
	out = appendU32(append(out, 0x23), p.fuel)    // global.get
	out = appendU32(append(out, 0x20), t)         // local.get
	out = append(out, 0x41, shift, 0x76, 0x6b)    // i32.const, i32.shr_u, i32.sub
	out = appendU32(append(out, 0x24), p.fuel)    // global.set
	out = appendU32(append(out, 0x23), p.fuel)    // global.get
	return appendU32(append(p.ask(out), 0x20), t) // local.get
}

// note adds the code that counts a change of state which is neither in memory
// nor in a numeric global.
func (p *preparer) note(out []byte) []byte {
	out = appendU32(append(out, 0x23), p.state) // global.get
	out = append(out, 0x42, 0x01, 0x7c)         // i64.const 1, i64.add
	return appendU32(append(out, 0x24), p.state)
}

func fill(out []byte, patch, instructions int) {
	cost := min(1+instructions/perFuel, maxCost)
	for i := range 3 {
		out[patch+i] = byte(cost>>(7*i))&0x7f | 0x80
	}
	out[patch+3] = byte(cost>>21) & 0x7f
}

// frame is a block that is open.
type frame struct {
	charges      bool // a loop, or the function
	patch        int
	instructions int
	outer        int // of one that charges: the next outer one that does
}

const (
	bytesPerFuel = 6 // as a shift: 64 bytes copied or filled
	maxLocals    = 50_000
	maxDepth     = 10_000
)

// body rewrites one function's code, without its length.
func (p *preparer) body(r *reader, out []byte, params int) []byte {
	groups := r.count()
	declared := r.at
	total := params
	for range groups {
		n := r.u32()
		if total += int(n); n > maxLocals || total > maxLocals {
			r.fail(declared, "function has more than %d locals", maxLocals)
		}
		p.valueType(r)
		if !r.ok() {
			return out
		}
	}
	t := uint32(total) // a local of our own, behind the others
	out = appendU32(out, uint32(groups)+1)
	out = append(out, r.b[declared:r.at]...)
	out = append(out, 1, i32)

	metered := !p.options.Unmetered
	patch := 0
	if metered {
		out, patch = p.charge(out, t)
	}
	frames := append(p.frames[:0], frame{charges: true, patch: patch})
	charging := 0 // the innermost frame that charges
	// What stays as it is, is copied in one go: it begins at kept.
	kept := r.at
	for len(frames) > 0 && r.ok() {
		frames[charging].instructions += p.plain(r, total)
		start := r.at
		op := r.byte()
		s, count := shapes[op], weights[op]
		var sub uint32
		switch op {
		case 0xfc:
			if sub = r.u32(); sub < uint32(len(miscShapes)) {
				s = miscShapes[sub]
			}
		case 0xfd:
			if sub = r.u32(); r.ok() {
				s = simdShape(sub)
			}
		}
		frames[charging].instructions += count
		switch s {
		case block, loopHead:
			p.blockType(r)
			if len(frames) > maxDepth {
				r.fail(start, "blocks are more than %d deep", maxDepth)
			}
			f := frame{charges: s == loopHead, outer: charging}
			if f.charges {
				charging = len(frames)
			}
			if f.charges && metered {
				out = append(out, r.b[kept:r.at]...)
				kept = r.at
				out, f.patch = p.charge(out, t)
			}
			frames = append(frames, f)
		case endMark:
			f := frames[len(frames)-1]
			frames = frames[:len(frames)-1]
			if f.charges {
				charging = f.outer
			}
			if f.charges && metered {
				fill(out, f.patch, f.instructions)
			}
		case function, refFunc:
			i := r.index("function", p.functions)
			out = append(out, r.b[kept:start]...)
			kept = r.at
			if s == refFunc {
				p.calls.fixed = false
				out = p.note(out)
			}
			out = appendU32(append(out, op), p.moved(i))
		case globalSet:
			if i := r.index("global", len(p.globals)); r.ok() && !p.globals[i].numeric() {
				out = p.note(append(out, r.b[kept:start]...))
				kept = start
			}
		case indirect:
			t := r.index("type", len(p.types))
			r.index("table", p.tables)
			if p.calls.fixed && r.ok() {
				out = appendU32(append(append(out, r.b[kept:start]...), 0x10), p.dispatcher(t)) // call
				kept = r.at
			}
		case tableSet, elemDrop, dataDrop:
			p.immediates(r, s)
			out = p.note(append(out, r.b[kept:start]...))
			kept = start
		case memInit, memCopy, memFill:
			p.immediates(r, s)
			out = p.chargeLength(append(out, r.b[kept:start]...), t, bytesPerFuel)
			kept = start
		case tabInit, tabCopy, tabGrow, tabFill:
			p.immediates(r, s)
			out = p.chargeLength(p.note(append(out, r.b[kept:start]...)), t, 0)
			kept = start
		case memGrow:
			p.memoryZero(r)
			if p.options.AskToGrow {
				out = appendU32(append(append(out, r.b[kept:start]...), 0x10), p.grow) // call
				kept = r.at
			}
		case 0:
			p.refuse(r, start, op, sub)
		case none, elseMark:
		case local:
			r.index("local", total)
		default:
			p.immediates(r, s)
		}
	}
	out = append(out, r.b[kept:r.at]...)
	p.frames = frames
	if r.ok() && r.at != len(r.b) {
		r.fail(r.at, "code goes on behind its end")
	}
	return out
}

// plain passes over instructions that stay as they are, and tells what they
// weigh. It stops at the first that is not among the most common, or not short,
// or wrong: that one is looked at like any other. A rewrite takes a third less so.
func (p *preparer) plain(r *reader, total int) (weighs int) {
	if !r.ok() {
		return 0
	}
	b, at := r.b, r.at
	locals, globals := min(total, 0x80), min(len(p.globals), 0x80)
short:
	for at+6 < len(b) { // the longest
		next := at + 1
		switch shapes[b[at]] {
		case none:
		case local:
			if int(b[next]) >= locals {
				break short
			}
			next++
		case globalGet:
			if int(b[next]) >= globals {
				break short
			}
			next++
		case globalSet:
			if i := int(b[next]); i >= globals || !p.globals[i].numeric() {
				break short
			}
			next++
		case access:
			if next++; b[next] >= 0x80 {
				next++
			}
			if b[at+1] > 15 || b[next] >= 0x80 {
				break short
			}
			next++
		case num32, num64:
			for next < at+5 && b[next] >= 0x80 {
				next++
			}
			if b[next] >= 0x80 {
				break short
			}
			next++
		default:
			break short
		}
		weighs += weights[b[at]]
		at = next
	}
	r.at = at
	return weighs
}

// immediates checks what follows an opcode of shape s.
func (p *preparer) immediates(r *reader, s shape) {
	switch s {
	case label:
		r.u32()
	case labels:
		for range r.count() {
			r.u32()
		}
		r.u32()
	case typed:
		for range r.count() {
			p.valueType(r)
		}
	case globalGet:
		r.index("global", len(p.globals))
	case table, tableSet, tabGrow, tabFill:
		p.table(r)
	case access, accessLn:
		if at := r.at; r.u32() > 15 {
			r.fail(at, "access to a second memory (multi-memory) is not supported")
		}
		r.u32()
		if s == accessLn {
			r.byte()
		}
	case zero, memFill:
		p.memoryZero(r)
	case num32:
		r.skipLEB(5)
	case num64:
		r.skipLEB(10)
	case four:
		r.bytes(4)
	case eight:
		r.bytes(8)
	case sixteen:
		r.bytes(16)
	case lane:
		r.byte()
	case heapType:
		p.refType(r)
	case memInit, dataDrop:
		p.usesData = true
		at := r.at
		r.index("data segment", p.dataCount)
		if p.sections[secDataCount] == nil {
			r.fail(at, "use of a data segment without a data count section")
		}
		if s == memInit {
			p.memoryZero(r)
		}
	case memCopy:
		p.memoryZero(r)
		p.memoryZero(r)
	case tabInit:
		r.index("element segment", p.elements)
		p.table(r)
	case elemDrop:
		p.calls.fixed = false
		r.index("element segment", p.elements)
	case tabCopy:
		p.table(r)
		p.table(r)
	}
}

// table takes the index of a table that more than call_indirect comes to.
func (p *preparer) table(r *reader) uint32 {
	p.calls.fixed = false
	return r.index("table", p.tables)
}

func (p *preparer) memoryZero(r *reader) {
	if at := r.at; r.byte() != 0 {
		r.fail(at, "a second memory (multi-memory) is not supported")
	}
}

func (p *preparer) blockType(r *reader) {
	at := r.at
	switch t := r.s64(5); {
	case t >= 0:
		if t >= int64(len(p.types)) {
			r.fail(at, "type %d of %d", t, len(p.types))
		}
	case t != -0x40: // no result
		r.at = at
		p.valueType(r)
	}
}

func (p *preparer) refuse(r *reader, at int, op byte, sub uint32) {
	switch {
	case !r.ok():
	case op == 0xfd && sub > 0xff:
		r.fail(at, "opcode 0xfd %#x (relaxed SIMD) is not supported", sub)
	case op == 0xfc || op == 0xfd:
		r.fail(at, "opcode %#x %#x is not known", op, sub)
	case refused(op) != "":
		r.fail(at, "opcode %s is not supported", refused(op))
	default:
		r.fail(at, "opcode %#x is not known", op)
	}
}

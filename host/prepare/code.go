package prepare

// codeRewriter rewrites the code of one function.
type codeRewriter struct {
	*rewriter
	r      *reader
	out    []byte
	copied int    // where the input begins that is not in out yet
	locals int    // that the function has, with its parameters
	spare  uint32 // a local that is added behind them

	frames   []frame // the blocks that are open
	charging int     // the innermost frame that charges
}

// frame is a block that is open.
type frame struct {
	charges      bool // it is a loop, or the function
	patch        int  // of its charge
	instructions int
	outer        int // of one that charges: the next outer one that does
}

const (
	maxLocals = 50_000
	maxDepth  = 10_000
)

func (c *codeRewriter) emit(code ...byte) { c.out = append(c.out, code...) }

func (c *codeRewriter) emitIndex(op byte, i uint32) { c.out = appendU32(append(c.out, op), i) }

// copyTo copies the input up to at.
func (c *codeRewriter) copyTo(at int) {
	c.out = append(c.out, c.r.b[c.copied:at]...)
	c.copied = at
}

// replaceFrom copies the input up to start. What has been read from there on is left
// out, for other code to replace it.
func (c *codeRewriter) replaceFrom(start int) {
	c.copyTo(start)
	c.copied = c.r.at
}

// function rewrites one function's code, without its length, and appends it to out.
func (p *rewriter) function(r *reader, out []byte, params int) []byte {
	c := codeRewriter{rewriter: p, r: r, out: out, frames: p.frames[:0]}
	if !c.declareLocals(params) {
		return out
	}
	c.copied = r.at
	c.open(true)
	for len(c.frames) > 0 && r.ok() {
		c.frames[c.charging].instructions += c.plain()
		c.instruction()
	}
	c.copyTo(r.at)
	p.frames = c.frames
	if r.ok() && r.at != len(r.b) {
		r.fail(r.at, "code goes on behind its end")
	}
	return c.out
}

// declareLocals rewrites the function's locals and adds the spare one.
func (c *codeRewriter) declareLocals(params int) bool {
	r := c.r
	groups := r.count()
	start := r.at
	c.locals = params
	for range groups {
		n := r.u32()
		if c.locals += int(n); n > maxLocals || c.locals > maxLocals {
			r.fail(start, "function has more than %d locals", maxLocals)
		}
		valueType(r)
		if !r.ok() {
			return false
		}
	}
	c.spare = uint32(c.locals)
	c.out = appendU32(c.out, uint32(groups)+1)
	c.out = append(c.out, r.b[start:r.at]...)
	c.emit(1, i32)
	return true
}

// open opens a frame whose first instruction comes next.
func (c *codeRewriter) open(charges bool) {
	f := frame{charges: charges, outer: c.charging}
	if charges {
		c.charging = len(c.frames)
		if !c.options.WithoutFuel {
			c.copyTo(c.r.at)
			f.patch = c.charge()
		}
	}
	c.frames = append(c.frames, f)
}

// close closes the innermost frame.
func (c *codeRewriter) close() {
	f := c.frames[len(c.frames)-1]
	c.frames = c.frames[:len(c.frames)-1]
	if !f.charges {
		return
	}
	c.charging = f.outer
	if !c.options.WithoutFuel {
		c.setCharge(f.patch, f.instructions)
	}
}

// instruction checks the next instruction, and rewrites it where it must.
func (c *codeRewriter) instruction() {
	r, start := c.r, c.r.at
	op := r.byte()
	s, sub := shapes[op], uint32(0)
	switch op {
	case opMisc:
		if sub = r.u32(); sub < uint32(len(miscShapes)) {
			s = miscShapes[sub]
		}
	case opSIMD:
		if sub = r.u32(); r.ok() {
			s = simdShape(sub)
		}
	}
	c.frames[c.charging].instructions += weights[op]
	switch s {
	case 0:
		refuse(r, start, op, sub)
	case none, elseMark:
	case local:
		r.index("local", c.locals)
	case block, loopHead:
		c.blockType(r)
		if len(c.frames) > maxDepth {
			r.fail(start, "blocks are more than %d deep", maxDepth)
		}
		c.open(s == loopHead)
	case endMark:
		c.close()
	case function, refFunc:
		c.functionIndex(start, op)
	case globalSet:
		if i := r.index("global", len(c.globals)); r.ok() && !c.globals[i].numeric() {
			c.insert(start, s)
		}
	case indirect:
		t := r.index("type", len(c.types))
		r.index("table", c.tables)
		if c.calls.fixed && r.ok() {
			c.replaceFrom(start)
			c.emitIndex(opCall, c.dispatcher(t))
		}
	case memGrow:
		memoryZero(r)
		if c.options.ImportGrow {
			c.replaceFrom(start)
			c.emitIndex(opCall, c.grow)
		}
	default:
		c.immediates(s)
		c.insert(start, s)
	}
}

// insert puts the code that an instruction of shape s needs before it, at start.
func (c *codeRewriter) insert(start int, s shape) {
	switch s {
	case globalSet, tableSet, elemDrop, dataDrop:
		c.copyTo(start)
		c.countChange()
	case memInit, memCopy, memFill:
		c.copyTo(start)
		c.chargeLength(bytesPerFuel)
	case tabInit, tabCopy, tabGrow, tabFill:
		c.copyTo(start)
		c.countChange()
		c.chargeLength(0)
	}
}

// functionIndex rewrites an instruction, of opcode op at start, that names a function.
func (c *codeRewriter) functionIndex(start int, op byte) {
	i := c.r.index("function", c.functions)
	c.replaceFrom(start)
	if op == opRefFunc {
		c.calls.fixed = false
		c.countChange()
	}
	c.emitIndex(op, c.moved(i))
}

// plain skips instructions that stay as they are, and returns their weight. It stops
// at the first that is not among the most common, or not short, or wrong, which
// instruction then looks at. A rewrite takes a third less so.
func (c *codeRewriter) plain() (weight int) {
	r := c.r
	if !r.ok() {
		return 0
	}
	b, at := r.b, r.at
	locals, globals := min(c.locals, 0x80), min(len(c.globals), 0x80)
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
			if i := int(b[next]); i >= globals || !c.globals[i].numeric() {
				break short
			}
			next++
		case access:
			if next++; b[next] >= 0x80 {
				next++
			}
			if b[at+1] > maxAlign || b[next] >= 0x80 {
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
		weight += weights[b[at]]
		at = next
	}
	r.at = at
	return weight
}

// maxAlign is the highest alignment of an access: a higher one says that the index
// of a memory follows.
const maxAlign = 15

// immediates checks what follows an opcode of shape s.
func (c *codeRewriter) immediates(s shape) {
	r := c.r
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
			valueType(r)
		}
	case globalGet:
		r.index("global", len(c.globals))
	case access, accessLane:
		if at := r.at; r.u32() > maxAlign {
			r.fail(at, "access to a second memory (multi-memory) is not supported")
		}
		r.u32()
		if s == accessLane {
			r.byte()
		}
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
		refType(r)
	case zero, memFill:
		memoryZero(r)
	case memCopy:
		memoryZero(r)
		memoryZero(r)
	default:
		c.segmentIndex(s)
	}
}

// segmentIndex checks what follows an opcode of shape s that names tables or segments.
func (c *codeRewriter) segmentIndex(s shape) {
	r := c.r
	switch s {
	case table, tableSet, tabGrow, tabFill:
		c.tableIndex(r)
	case tabCopy:
		c.tableIndex(r)
		c.tableIndex(r)
	case tabInit:
		r.index("element segment", c.elements)
		c.tableIndex(r)
	case elemDrop:
		c.calls.fixed = false
		r.index("element segment", c.elements)
	case memInit, dataDrop:
		c.usesData = true
		at := r.at
		r.index("data segment", c.dataCount)
		if c.sections[secDataCount] == nil {
			r.fail(at, "use of a data segment without a data count section")
		}
		if s == memInit {
			memoryZero(r)
		}
	}
}

// tableIndex reads the index of a table that something else than call_indirect uses.
func (p *rewriter) tableIndex(r *reader) uint32 {
	p.calls.fixed = false
	return r.index("table", p.tables)
}

func memoryZero(r *reader) {
	if at := r.at; r.byte() != 0 {
		r.fail(at, "a second memory (multi-memory) is not supported")
	}
}

func (p *rewriter) blockType(r *reader) {
	at := r.at
	switch t := r.s64(5); {
	case t >= 0:
		if t >= int64(len(p.types)) {
			r.fail(at, "type %d of %d", t, len(p.types))
		}
	case t != noResult-0x80:
		r.at = at
		valueType(r)
	}
}

func refuse(r *reader, at int, op byte, sub uint32) {
	switch {
	case !r.ok():
	case op == opSIMD && sub > 0xff:
		r.fail(at, "opcode 0xfd %#x (relaxed SIMD) is not supported", sub)
	case op == opMisc || op == opSIMD:
		r.fail(at, "opcode %#x %#x is not known", op, sub)
	case refused[op] != "":
		r.fail(at, "opcode %s is not supported", refused[op])
	default:
		r.fail(at, "opcode %#x is not known", op)
	}
}

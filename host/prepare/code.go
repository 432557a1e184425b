package prepare

// codeRewriter rewrites the code of one function.
type codeRewriter struct {
	*rewriter
	r      *reader
	out    []byte
	copied int    // where the input begins that is not in out yet
	locals int    // that the function has, with its parameters
	spare  uint32 // the first local that is added behind them
	words  int    // of short bulk operations, up to now
	last   [2]int // where the two instructions before the next begin; -1: not known

	frames []frame // the blocks that are open
	edges  int     // blocks, and branches to their ends or heads
	loops  int     // open or closed
	level  int     // the innermost of them that is a loop or the function
	meter  fuelMeter
}

// frame is a block that is open.
type frame struct {
	shape  shape // loopHead for a loop; 0 for the function
	level  int   // the frame that it stands in and that is a loop or the function
	region int   // of a loop or the function: that of the code which comes next
	calls  int   // before a loop
	jumps  int   // to its end: see fuelMeter.join
	unless int   // of an if whose else has not come: jumps where its condition is false
}

// repeats reports whether a branch to the frame goes back to its head, or ends the
// function.
func (f *frame) repeats() bool { return f.shape == loopHead || f.shape == 0 }

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

// functionDirect is function, with jumps that have become branches. Where it would be
// refused so, for blocks and branches that were added or for another fault, the code
// stays as it is, or is refused as it is.
func (p *rewriter) functionDirect(r *reader, out []byte, params int) []byte {
	if code := directJumps(r.b[r.at:]); code != nil {
		direct := &reader{b: code}
		if body := p.function(direct, out, params); direct.ok() {
			return body
		}
	}
	return p.function(r, out, params)
}

// function rewrites one function's code, without its length, and appends it to out.
func (p *rewriter) function(r *reader, out []byte, params int) []byte {
	c, start := codeRewriter{rewriter: p, r: r, out: out, frames: p.frames[:0], last: [2]int{-1, -1}}, r.at
	c.meter = fuelMeter{off: p.options.WithoutFuel, exact: p.options.exactFuel, regions: p.regions[:0], jumps: p.jumps[:0]}
	if !c.declareLocals(params) {
		return out
	}
	c.copied = r.at
	c.open(0)
	for len(c.frames) > 0 && r.ok() {
		c.meter.add(c.region(), c.plain())
		c.instruction()
	}
	c.copyTo(r.at)
	c.setCharges()
	c.checkBlocks(start)
	p.frames, p.regions, p.jumps = c.frames, c.meter.regions, c.meter.jumps
	if r.ok() && r.at != len(r.b) {
		r.fail(r.at, "code goes on behind its end")
	}
	return c.out
}

// declareLocals rewrites the function's locals and adds those that the rewrite uses.
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
	c.out = appendU32(c.out, uint32(groups)+2)
	c.out = append(c.out, r.b[start:r.at]...)
	c.emit(2, i32, copyWords, v128)
	return true
}

// open opens a frame of shape s, whose first instruction comes next.
func (c *codeRewriter) open(s shape) {
	f := frame{shape: s, level: c.level, calls: c.meter.calls}
	switch s {
	case 0, loopHead:
		if s == loopHead {
			c.loops++
		}
		c.level = len(c.frames)
		f.region = c.beginRegion(c.r.at, true)
	case ifMark:
		f.unless = c.meter.join(0, c.meter.from(c.region()))
	}
	c.frames = append(c.frames, f)
	c.edges++
}

// orElse goes over to the second half of an if.
func (c *codeRewriter) orElse() {
	f := &c.frames[len(c.frames)-1]
	if f.shape != ifMark {
		return // the engine refuses it
	}
	f.jumps = c.meter.join(f.jumps, c.meter.from(c.region()))
	f.shape = block
	c.meter.unchecked = 0 // what is before it does not go on here
	c.land(f.unless)
}

// close closes the innermost frame.
func (c *codeRewriter) close() {
	at := len(c.frames) - 1
	f := c.frames[at]
	c.frames = c.frames[:at]
	switch f.shape {
	case 0:
	case loopHead:
		c.level = f.level
		if c.meter.calls > f.calls {
			c.meter.limitAfterCall(c.region())
		}
	case ifMark:
		c.land(f.unless)
		c.land(f.jumps)
	default:
		c.land(f.jumps)
	}
}

// instruction checks the next instruction, and rewrites it where it must.
func (c *codeRewriter) instruction() {
	r, start := c.r, c.r.at
	op, sub, s := readOp(r)
	short := c.shortBulk(start, s)
	c.last = [2]int{-1, -1}
	c.spend(start, weightOf(op, s)+short.weight())
	switch s {
	case 0:
		refuse(r, start, op, sub)
	case none:
	case elseMark:
		c.orElse()
	case local:
		r.index("local", c.locals)
	case block, ifMark, loopHead:
		c.blockType(r)
		if len(c.frames) > maxDepth {
			r.fail(start, "blocks are more than %d deep", maxDepth)
		}
		c.open(s)
	case endMark:
		c.close()
	case function, refFunc:
		c.functionIndex(start, op)
	case globalSet:
		if i := r.index("global", len(c.globals)); r.ok() && !c.globals[i].numeric() {
			c.insert(start, s)
		}
	case indirect:
		c.indirectCall(start)
	case memGrow, memFill, memCopy, memInit:
		c.memoryOperation(start, s, short)
	default:
		c.immediates(s)
		c.insert(start, s)
	}
	switch op {
	case opCall, opCallIndirect:
		c.meter.called(c.region())
	case opUnreachable, opBr, opBrTable, opReturn:
		c.meter.unchecked = 0 // nothing goes on from here
	}
}

// memoryOperation checks an operation of shape s on memory, at start, and replaces it where it
// must.
func (c *codeRewriter) memoryOperation(start int, s shape, short shortBulk) {
	r := c.r
	switch s {
	case memGrow:
		memoryZero(r)
		if c.options.ImportGrow {
			c.replaceFrom(start)
			c.emitIndex(opCall, c.grow)
		}
	case memFill:
		memoryZero(r)
		if short.length > 0 {
			c.replaceFill(start, short)
		} else {
			c.replaceBulk(start, bulkFill)
		}
	case memCopy:
		memoryZero(r)
		memoryZero(r)
		if short.length > 0 {
			c.replaceCopy(start, short.length)
		} else {
			c.replaceBulk(start, bulkCopy)
		}
	case memInit:
		segment := c.dataIndex(r)
		memoryZero(r)
		c.replaceBulk(start, bulkInit(segment))
	}
}

// indirectCall checks a call_indirect, and has it go by the module's dispatcher for its
// type if there is one.
func (c *codeRewriter) indirectCall(start int) {
	t := c.r.index("type", len(c.types))
	c.r.index("table", c.tables)
	if c.calls.fixed && c.r.ok() {
		c.replaceFrom(start)
		c.emitIndex(opCall, c.dispatcher(t))
	}
}

// insert puts the code that an instruction of shape s needs before it, at start, or
// in its place.
func (c *codeRewriter) insert(start int, s shape) {
	switch s {
	case globalSet, tableSet, elemDrop, dataDrop:
		c.copyTo(start)
		c.countChange()
	case tabInit, tabCopy, tabGrow, tabFill:
		c.copyTo(start)
		c.countChange()
		if !c.options.WithoutFuel {
			c.chargeElements()
		}
	}
}

// chargeElements emits the code that spends fuel for the number of elements which is on
// the stack.
//
//	tee(n); spare = min(n, maxTableCharge), unsigned; charge for spare
func (c *codeRewriter) chargeElements() {
	c.emitIndex(opLocalTee, c.spare)
	c.emitIndex(opLocalGet, c.spare)
	c.out = appendS64(append(c.out, opI32Const), maxTableCharge)
	c.emitIndex(opLocalGet, c.spare)
	c.out = appendS64(append(c.out, opI32Const), maxTableCharge)
	c.emit(opI32LtU, opSelect)
	c.emitIndex(opLocalSet, c.spare)
	c.out = c.chargeLength(c.out, c.spare, 0)
}

// replaceBulk puts a call in the place of an operation on memory, at start.
func (c *codeRewriter) replaceBulk(start int, b bulk) {
	if c.options.WithoutFuel || !c.r.ok() {
		return
	}
	c.replaceFrom(start)
	c.emitIndex(opCall, c.bulkFunction(b))
	c.meter.called(c.region())
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
	room := c.meter.room(c.region())
	locals, globals := min(c.locals, 0x80), min(len(c.globals), 0x80)
short:
	for at+6 < len(b) { // the longest
		if weight+weights[b[at]] > room {
			break
		}
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
		c.last[0], c.last[1] = c.last[1], at
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
		c.branch(r.u32())
	case labels:
		for range r.count() {
			c.branch(r.u32())
		}
		c.branch(r.u32())
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
	case num32, num64, four, eight, sixteen, lane:
		skipImmediates(r, s)
	case heapType:
		refType(r)
	case zero:
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
	case dataDrop:
		c.dataIndex(r)
	}
}

// dataIndex reads the index of a data segment.
func (p *rewriter) dataIndex(r *reader) uint32 {
	p.usesData = true
	at := r.at
	i := r.index("data segment", p.dataCount)
	if p.sections[secDataCount] == nil {
		r.fail(at, "use of a data segment without a data count section")
	}
	return i
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

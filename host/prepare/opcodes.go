package prepare

// The opcodes of WebAssembly 2.0 (https://www.w3.org/TR/wasm-core-2/, binary
// format, appendix "Index of Instructions").

// Opcodes that the rewrite emits or treats by name.
const (
	opUnreachable   = 0x00
	opBlock         = 0x02
	opLoop          = 0x03
	opIf            = 0x04
	opElse          = 0x05
	opEnd           = 0x0b
	opBr            = 0x0c
	opBrIf          = 0x0d
	opBrTable       = 0x0e
	opReturn        = 0x0f
	opCall          = 0x10
	opCallIndirect  = 0x11
	opDrop          = 0x1a
	opSelect        = 0x1b
	opLocalGet      = 0x20
	opLocalSet      = 0x21
	opLocalTee      = 0x22
	opGlobalGet     = 0x23
	opGlobalSet     = 0x24
	opMemorySize    = 0x3f
	opI32Const      = 0x41
	opI64Const      = 0x42
	opF32Const      = 0x43
	opF64Const      = 0x44
	opI32Eq         = 0x46
	opI32LtU        = 0x49
	opI32GtU        = 0x4b
	opI32LeU        = 0x4d
	opI32GeS        = 0x4e
	opI64LeU        = 0x58
	opI32Add        = 0x6a
	opI32Sub        = 0x6b
	opI32And        = 0x71
	opI32ShrU       = 0x76
	opI64Add        = 0x7c
	opI64Shl        = 0x86
	opI64ExtendI32U = 0xad
	opRefNull       = 0xd0
	opRefFunc       = 0xd2
	opMisc          = 0xfc // a prefix: see miscShapes
	opSIMD          = 0xfd // a prefix: see simdShape

	simdConst = 0x0c // v128.const
	noResult  = 0x40 // the type of a block
)

// shape is the kind of what follows an opcode.
type shape byte

const (
	none       shape = iota + 1 // nothing
	block                       // block type; opens a block
	loopHead                    // as block, and branches to it go back
	ifMark                      // as block, one half of which runs
	elseMark                    // else
	endMark                     // end
	label                       // label index
	labels                      // list of label indices, and a default
	function                    // function index
	indirect                    // type index, table index
	typed                       // list of value types
	local                       // local index
	globalGet                   // global index
	globalSet                   // global index
	table                       // table index
	tableSet                    // table index; changes the table
	access                      // alignment, offset
	zero                        // a zero byte: the memory's index
	memGrow                     // a zero byte: the memory's index
	num32                       // signed LEB128, 32 bits
	num64                       // signed LEB128, 64 bits
	four                        // 4 bytes
	eight                       // 8 bytes
	heapType                    // type of a null reference
	refFunc                     // function index; may make the engine keep a record
	lane                        // lane index
	accessLane                  // alignment, offset, lane index
	sixteen                     // 16 bytes
	memInit                     // data index, zero byte; takes a length
	dataDrop                    // data index
	memCopy                     // two zero bytes; takes a length
	memFill                     // zero byte; takes a length
	tabInit                     // element index, table index; takes a length
	elemDrop                    // element index
	tabCopy                     // two table indices; takes a length
	tabGrow                     // table index; takes a length
	tabFill                     // table index; takes a length
)

// shapes of the one-byte opcodes; 0 where one is not known, which is refused.
var shapes = makeShapes()

func makeShapes() (t [256]shape) {
	set := func(s shape, from, to int) {
		for i := from; i <= to; i++ {
			t[i] = s
		}
	}
	set(none, 0x00, 0x01) // unreachable, nop
	set(block, 0x02, 0x02)
	set(loopHead, 0x03, 0x03)
	set(ifMark, 0x04, 0x04)
	set(elseMark, 0x05, 0x05)
	set(endMark, 0x0b, 0x0b)
	set(label, 0x0c, 0x0d) // br, br_if
	set(labels, 0x0e, 0x0e)
	set(none, 0x0f, 0x0f) // return
	set(function, 0x10, 0x10)
	set(indirect, 0x11, 0x11)
	set(none, 0x1a, 0x1b) // drop, select
	set(typed, 0x1c, 0x1c)
	set(local, 0x20, 0x22)
	set(globalGet, 0x23, 0x23)
	set(globalSet, 0x24, 0x24)
	set(table, 0x25, 0x25)
	set(tableSet, 0x26, 0x26)
	set(access, 0x28, 0x3e) // loads and stores
	set(zero, 0x3f, 0x3f)   // memory.size
	set(memGrow, 0x40, 0x40)
	set(num32, 0x41, 0x41)
	set(num64, 0x42, 0x42)
	set(four, 0x43, 0x43)
	set(eight, 0x44, 0x44)
	set(none, 0x45, 0xc4) // numeric, the last five of them sign extension
	set(heapType, 0xd0, 0xd0)
	set(none, 0xd1, 0xd1) // ref.is_null
	set(refFunc, 0xd2, 0xd2)
	return t
}

// miscShapes are the shapes of the opcodes after the prefix 0xfc.
var miscShapes = [...]shape{
	none, none, none, none, none, none, none, none, // saturating conversions
	memInit, dataDrop, memCopy, memFill,
	tabInit, elemDrop, tabCopy, tabGrow, table, tabFill,
}

// simdShape returns the shape of an opcode after the prefix 0xfd, 0 when it is not known.
func simdShape(op uint32) shape {
	switch {
	case op <= 0x0b, op == 0x5c, op == 0x5d:
		return access
	case op == 0x0c, op == 0x0d: // v128.const, i8x16.shuffle
		return sixteen
	case op >= 0x15 && op <= 0x22:
		return lane
	case op >= 0x54 && op <= 0x5b:
		return accessLane
	case op > 0xff:
		return 0
	}
	switch op { // numbers that the proposal did not use in the end
	case 0x9a, 0xa2, 0xa5, 0xa6, 0xaf, 0xb0, 0xb2, 0xb3, 0xb4, 0xbb,
		0xc2, 0xc5, 0xc6, 0xcf, 0xd0, 0xd2, 0xd3, 0xd4, 0xe2, 0xee:
		return 0
	}
	return none
}

// weights of the opcodes: how much fuel each costs.
var weights = makeWeights()

// accessWeight is that of an access to memory. One that is not in any cache takes as
// long as a hundred plain instructions, and one of a page that was not touched yet as
// a thousand; but most take no longer than others.
const accessWeight = 4

func makeWeights() (t [256]int) {
	set := func(weight int, opcodes ...byte) {
		for _, op := range opcodes {
			t[op] = weight
		}
	}
	for op := range t {
		t[op] = 1
		if shapes[op] == access {
			t[op] = accessWeight
		}
	}
	set(0, opBlock, opLoop, opElse, opEnd)
	set(8, 0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82) // integer division
	set(4, 0x91, 0x9f, 0x95, 0xa3)                         // square root, float division
	set(4, opCall, opCallIndirect)
	set(maxRegion, 0x40, opRefFunc) // memory.grow, ref.func: the engine works
	return t
}

// refused names the opcodes of proposals that are not supported.
var refused = [256]string{
	0x06: "try (exception handling)",
	0x07: "catch (exception handling)",
	0x08: "throw (exception handling)",
	0x09: "rethrow (exception handling)",
	0x0a: "throw_ref (exception handling)",
	0x18: "delegate (exception handling)",
	0x19: "catch_all (exception handling)",
	0x1f: "try_table (exception handling)",
	0x12: "return_call (tail call)",
	0x13: "return_call_indirect (tail call)",
	0x14: "call_ref (typed function references)",
	0x15: "return_call_ref (tail call)",
	0xd3: "ref.eq (typed function references)",
	0xd4: "ref.as_non_null (typed function references)",
	0xd5: "br_on_null (typed function references)",
	0xd6: "br_on_non_null (typed function references)",
	0xfb: "0xfb (garbage collection)",
	0xfe: "0xfe (threads)",
}

// readOp reads an opcode and, of those that have one, what follows it: the number of an
// instruction of its own.
func readOp(r *reader) (op byte, sub uint32, s shape) {
	op = r.byte()
	s = shapes[op]
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
	return op, sub, s
}

// weightOf returns how much fuel an instruction costs.
func weightOf(op byte, s shape) int {
	if op == opSIMD && (s == access || s == accessLane) {
		return accessWeight
	}
	return weights[op]
}

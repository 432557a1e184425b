package prepare

import "bytes"

// Short bulk operations. Go's compiler has memory.copy and memory.fill for every value
// of more than some words, with a constant for their length. An engine calls a function
// for each, whatever the length. So one of a constant, short length becomes loads and
// stores of 16 bytes:
//
//	(memory.fill (to) (i32.const v) (i32.const 40))
//
//	(v128.store offset=24 (to) (v…))  ;; the last first: if it traps, nothing is written
//	(v128.store offset=16 (to) (v…))
//	(v128.store offset=0 (to) (v…))
//
// A copy loads all before it stores, since what it copies may overlap.
const (
	wordSize  = 16
	maxFilled = 256
	maxCopied = copyWords * wordSize
	copyWords = 8 // locals for what a copy has loaded
	// maxWords bounds the words of all such operations in a function, for a function
	// becomes longer by them, and an engine compiles a long one slowly (cost.go).
	maxWords = 1024
	// maxModuleWords bounds them in a module, which else could become twenty times as
	// large. A word takes some 26 bytes at most.
	maxModuleWords = 256 << 10

	opV128Load  = 0x00 // after opSIMD
	opV128Store = 0x0b
)

// constant returns the value of the i32.const that is the nth of the two instructions
// before the one at start.
func (c *codeRewriter) constant(nth, start int) (value uint32, ok bool) {
	at, end := c.last[nth], start
	if nth == 0 {
		end = c.last[1]
	}
	if at < 0 || end <= at || c.r.b[at] != opI32Const {
		return 0, false
	}
	r := reader{b: c.r.b[:end], at: at + 1}
	value = uint32(r.s64(5))
	return value, r.ok() && r.at == end
}

// shortBulk is a memory.copy or a memory.fill that becomes loads and stores.
type shortBulk struct {
	length uint32 // 0: it does not
	value  byte   // of a fill
}

// weight returns how much fuel it costs beside what any instruction does.
func (b shortBulk) weight() int {
	if b.length == 0 {
		return 0
	}
	return 2*accessWeight + int(b.length)>>bytesPerFuel
}

// shortBulk returns what the instruction of shape s at start becomes.
func (c *codeRewriter) shortBulk(start int, s shape) (b shortBulk) {
	if s != memFill && s != memCopy {
		return b
	}
	length, ok := c.constant(1, start)
	most := uint32(maxCopied)
	if s == memFill {
		value, constant := c.constant(0, start)
		b.value, ok, most = byte(value), ok && constant, maxFilled
	}
	if ok && length >= wordSize && length <= most && c.words < maxWords && c.moduleWords < maxModuleWords {
		words := int(length / wordSize)
		c.words += words
		c.moduleWords += words
		b.length = length
	}
	return b
}

// words calls do with the offsets of the words that cover length bytes, the last first.
func words(length uint32, do func(nth, offset uint32)) {
	nth := uint32(0)
	for at := (length - 1) / wordSize * wordSize; ; at -= wordSize {
		do(nth, min(at, length-wordSize))
		if nth++; at == 0 {
			return
		}
	}
}

// replaceFill puts stores in the place of a memory.fill at start.
func (c *codeRewriter) replaceFill(start int, b shortBulk) {
	c.replaceFrom(start)
	word := c.spare + 2
	c.emit(opDrop, opDrop)
	c.emitIndex(opLocalSet, c.spare)
	c.emit(opSIMD, simdConst)
	c.emit(bytes.Repeat([]byte{b.value}, wordSize)...)
	c.emitIndex(opLocalSet, word)
	words(b.length, func(_, offset uint32) {
		c.emitIndex(opLocalGet, c.spare)
		c.emitIndex(opLocalGet, word)
		c.emitWord(opV128Store, offset)
	})
}

// replaceCopy puts loads and stores in the place of a memory.copy of length bytes at
// start.
func (c *codeRewriter) replaceCopy(start int, length uint32) {
	from, first := c.spare+1, c.spare+2
	c.replaceFrom(start)
	c.emit(opDrop)
	c.emitIndex(opLocalSet, from)
	c.emitIndex(opLocalSet, c.spare)
	words(length, func(nth, offset uint32) {
		c.emitIndex(opLocalGet, from)
		c.emitWord(opV128Load, offset)
		c.emitIndex(opLocalSet, first+nth)
	})
	words(length, func(nth, offset uint32) {
		c.emitIndex(opLocalGet, c.spare)
		c.emitIndex(opLocalGet, first+nth)
		c.emitWord(opV128Store, offset)
	})
}

// emitWord emits an access to 16 bytes, which need not be aligned.
func (c *codeRewriter) emitWord(op byte, offset uint32) {
	c.out = appendU32(append(c.out, opSIMD, op, 0), offset)
}

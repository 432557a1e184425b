package prepare

// Fuel. Each instruction belongs to the innermost loop that it stands in, or to its
// function. Only a branch to a loop's head goes back, so in one iteration of a loop
// none of its instructions runs twice: the head charges for all of them, and the
// function's entry for those outside any loop. An operation on many bytes or
// elements is charged by its length. As soon as the fuel is below zero, edge.tick is
// called, which gives more or ends the call.

const (
	instructionsPerFuel = 8
	bytesPerFuel        = 6         // of bulk operations, as a shift: 64
	maxCost             = 1<<27 - 1 // the most that fits into the four bytes of a charge
)

// charge emits the code that spends fuel, and returns where the amount belongs.
//
//	fuel - amount -> spare -> fuel; if spare < 0 { fuel = tick() }
func (c *codeRewriter) charge() (patch int) {
	c.emitIndex(opGlobalGet, c.fuel)
	c.emit(opI32Const)
	patch = len(c.out)
	c.emit(0x80, 0x80, 0x80, 0x00, opI32Sub)
	c.emitIndex(opLocalTee, c.spare)
	c.emitIndex(opGlobalSet, c.fuel)
	c.emitIndex(opLocalGet, c.spare)
	c.refuelBelowZero()
	return patch
}

// setCharge fills in the amount of a charge.
func (c *codeRewriter) setCharge(patch, instructions int) {
	cost := min(1+instructions/instructionsPerFuel, maxCost)
	for i := range 3 {
		c.out[patch+i] = byte(cost>>(7*i))&0x7f | 0x80
	}
	c.out[patch+3] = byte(cost>>21) & 0x7f
}

// refuelBelowZero emits the code that calls edge.tick when the number on the stack
// is below zero.
func (c *codeRewriter) refuelBelowZero() {
	c.emit(opI32Const, 0, opI32LtS, opIf, noResult)
	c.emitIndex(opCall, c.refuel)
	c.emitIndex(opGlobalSet, c.fuel)
	c.emit(opEnd)
}

// chargeLength emits the code that spends fuel for the length on top of the stack,
// divided by 1<<shift, and leaves it there.
func (c *codeRewriter) chargeLength(shift byte) {
	if c.options.WithoutFuel {
		return
	}
	c.emitIndex(opLocalSet, c.spare)
	c.emitIndex(opGlobalGet, c.fuel)
	c.emitIndex(opLocalGet, c.spare)
	c.emit(opI32Const, shift, opI32ShrU, opI32Sub)
	c.emitIndex(opGlobalSet, c.fuel)
	c.emitIndex(opGlobalGet, c.fuel)
	c.refuelBelowZero()
	c.emitIndex(opLocalGet, c.spare)
}

// countChange emits the code that counts a change of state which is neither in
// memory nor in a numeric global.
func (c *codeRewriter) countChange() {
	c.emitIndex(opGlobalGet, c.state)
	c.emit(opI64Const, 1, opI64Add)
	c.emitIndex(opGlobalSet, c.state)
}

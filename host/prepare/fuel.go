package prepare

import "math"

// Fuel. Code is divided into regions that run from their beginning to their end
// unless a branch leaves them. A region costs what its instructions weigh, which is
// charged where it begins. One begins at a function's entry and at a loop's head,
// where a check follows the charge: with less than no fuel the guest calls edge.tick,
// which gives more or ends the call. Every way back leads through one of them. To
// check costs more than to charge, so further regions only charge, unless more than
// maxUnchecked may have been spent on the way there without a check.
//
// A loop has regions of its own. Behind it, the region goes on in which it stands,
// and which has charged for that code already.
//
// A branch from region A to region B enters B behind B's charge. So A charges for the
// rest of B beforehand ("ahead"), if it may: not if A was itself entered by such a
// branch, which skipped A's charge, and not once A has called a function. That might
// run for long, or call itself, with the code of each caller paid for before it runs.
// Otherwise a new region begins at the target.
const (
	maxRegion    = 128 // of what a region costs
	maxUnchecked = 128
	// maxAfterCall is how much of a region may follow a call: calls that are deep
	// within each other hold so much each that was paid for before it runs.
	maxAfterCall = 32
	regionWeight = 2 // of a charge itself
	// A call takes room on the stack, at most 8 bytes for each local and for each
	// value of the function.
	localsPerFuel  = 8
	weightPerFuel  = 64
	bytesPerFuel   = 3         // of bulk operations, as a shift: 8
	maxAmount      = 1<<13 - 1 // the most that fits into the two bytes of a charge
	maxTableCharge = 1 << 24   // the most elements that are charged for: no table has as many
)

// firstJump is the index of the first jump where indices of jumps are kept, so that 0
// stands for none.
const firstJump = 1

// region is a stretch of code with one charge.
type region struct {
	patch   int // where its amount belongs
	weight  int // of its instructions up to now
	limit   int // of the weight
	ahead   int // the weight up to the last branch that it pays for; 0: there is none
	entered bool
	calls   int // before its beginning
}

// jump is one or more branches from a region to the end of a block.
type jump struct {
	region    int
	weight    int // of the region up to the last of them
	unchecked int // the most that was spent there without a check
	ahead     bool
	next      int // another jump to that end, as frame.jumps
}

// fuelMeter divides the code of a function into regions.
type fuelMeter struct {
	off       bool
	exact     bool // each instruction is a region
	regions   []region
	jumps     []jump
	unchecked int // the most that may have been spent since the last check
	calls     int
	total     int // the function's weight
}

// begin begins a region.
func (m *fuelMeter) begin(patch int) (index int) {
	g := region{patch: patch, weight: regionWeight, limit: maxRegion, calls: m.calls}
	if m.exact {
		g.weight, g.limit = 0, 0
	}
	m.regions = append(m.regions, g)
	return len(m.regions) - 1
}

// room returns how much the next instructions may weigh for the region i to go on.
func (m *fuelMeter) room(i int) int {
	if m.off {
		return math.MaxInt
	}
	return min(m.regions[i].limit-m.regions[i].weight, maxUnchecked-m.unchecked)
}

// add adds instructions to the region i.
func (m *fuelMeter) add(i, weight int) {
	if m.off {
		return
	}
	m.regions[i].weight += weight
	m.unchecked += weight
	m.total += weight
}

// ends reports whether the region i must end before an instruction, and whether the
// next one must check.
func (m *fuelMeter) ends(i, weight int) (ends, check bool) {
	if m.off {
		return false, false
	}
	if m.unchecked > 0 && m.unchecked+weight > maxUnchecked {
		return true, true
	}
	g := &m.regions[i]
	return (g.weight > regionWeight || m.exact) && g.weight+weight > g.limit, false
}

// called notes that a function was called in the region i. It checks at its entry.
func (m *fuelMeter) called(i int) {
	if m.off {
		return
	}
	m.calls++
	m.unchecked = 0
	m.limitAfterCall(i)
}

func (m *fuelMeter) limitAfterCall(i int) {
	g := &m.regions[i]
	g.limit = min(g.limit, g.weight+maxAfterCall)
}

// from returns a jump out of the region i, from here.
func (m *fuelMeter) from(i int) jump {
	g := &m.regions[i]
	return jump{region: i, weight: g.weight, unchecked: m.unchecked, ahead: !g.entered && g.calls == m.calls && !m.exact}
}

// join adds a jump to those that begin at index first, and returns where they begin
// now.
func (m *fuelMeter) join(first int, j jump) int {
	if m.off {
		return first
	}
	if first >= firstJump {
		if last := &m.jumps[first-firstJump]; last.region == j.region {
			last.weight, last.unchecked = max(last.weight, j.weight), max(last.unchecked, j.unchecked)
			last.ahead = last.ahead && j.ahead
			return first
		}
	}
	j.next = first
	m.jumps = append(m.jumps, j)
	return len(m.jumps) - 1 + firstJump
}

// land takes over jumps to the beginning of code that belongs to region i, and
// reports whether another region must begin there.
func (m *fuelMeter) land(i, first int) (begin bool) {
	for at := first; at >= firstJump; at = m.jumps[at-firstJump].next {
		j := &m.jumps[at-firstJump]
		m.unchecked = max(m.unchecked, j.unchecked)
		begin = begin || j.region != i && !j.ahead
	}
	if begin {
		return true
	}
	for at := first; at >= firstJump; at = m.jumps[at-firstJump].next {
		if j := &m.jumps[at-firstJump]; j.region != i {
			from := &m.regions[j.region]
			from.ahead = max(from.ahead, j.weight)
			m.regions[i].entered = true
		}
	}
	return false
}

// cost returns what the region i costs.
func (m *fuelMeter) cost(i, locals int) int {
	g := &m.regions[i]
	cost := g.weight
	if g.ahead > 0 {
		cost = max(cost, g.ahead+maxRegion)
	}
	if i == 0 && !m.exact {
		cost += locals/localsPerFuel + m.total/weightPerFuel
	}
	return min(cost, maxAmount)
}

// region returns the region that the code belongs to that comes next.
func (c *codeRewriter) region() int { return c.frames[c.level].region }

// beginRegion begins a region at the offset at of the input, and returns its index.
func (c *codeRewriter) beginRegion(at int, check bool) int {
	if c.meter.off {
		return c.meter.begin(0)
	}
	c.copyTo(at)
	index := c.meter.begin(c.charge(check))
	if check {
		c.meter.unchecked = 0
	}
	return index
}

// spend adds an instruction, at start, to a region.
func (c *codeRewriter) spend(start, weight int) {
	if ends, check := c.meter.ends(c.region(), weight); ends {
		c.frames[c.level].region = c.beginRegion(start, check)
	}
	c.meter.add(c.region(), weight)
}

// branch notes a branch out of depth blocks.
func (c *codeRewriter) branch(depth uint32) {
	c.edges++
	at := len(c.frames) - 1 - int(depth)
	if at < 0 || c.frames[at].repeats() {
		return
	}
	f := &c.frames[at]
	f.jumps = c.meter.join(f.jumps, c.meter.from(c.frames[f.level].region))
}

// land goes on where jumps lead to.
func (c *codeRewriter) land(jumps int) {
	if c.meter.land(c.region(), jumps) {
		c.frames[c.level].region = c.beginRegion(c.r.at, false)
	}
}

// charge emits the code that spends fuel, and returns where the amount belongs.
//
//	fuel - amount -> fuel; if fuel < 0 { refuel() }
func (c *codeRewriter) charge(check bool) (patch int) {
	c.emitIndex(opGlobalGet, c.fuel)
	c.emit(opI32Const)
	patch = len(c.out)
	c.emit(0x80, 0x00, opI32Sub)
	if check {
		c.emitIndex(opLocalTee, c.spare)
	}
	c.emitIndex(opGlobalSet, c.fuel)
	if check {
		c.emitIndex(opLocalGet, c.spare)
		c.out = c.refuelBelowZero(c.out)
	}
	return patch
}

// setCharges fills in the amounts of all charges.
func (c *codeRewriter) setCharges() {
	if c.meter.off {
		return
	}
	for i, g := range c.meter.regions {
		cost := c.meter.cost(i, c.locals)
		c.out[g.patch], c.out[g.patch+1] = byte(cost)|0x80, byte(cost>>7)
	}
}

// refuelBelowZero appends the code that gets more fuel when the number on the stack
// is below zero. The engine's code is faster with an else.
func (p *rewriter) refuelBelowZero(out []byte) []byte {
	out = append(out, opI32Const, 0, opI32GeS, opIf, noResult, opElse)
	return append(appendU32(append(out, opCall), p.refuel), opEnd)
}

// addRefuel adds the function that gets more fuel from the host. Code that calls it
// is shorter than code that calls edge.tick and sets the fuel.
func (p *rewriter) addRefuel() {
	out := appendU32([]byte{0, opCall}, p.tick)
	out = appendU32(append(out, opGlobalSet), p.fuel)
	p.refuel = p.addFunction(signature{}, append(out, opEnd))
}

// chargeLength appends the code that spends fuel for a length, divided by 1<<shift,
// that is in a local. The length counts as unsigned, and the guest chooses it: with a
// shift of 0 it must be bounded before, or 1<<31 and more would be fuel that is given.
func (p *rewriter) chargeLength(out []byte, local uint32, shift byte) []byte {
	out = appendU32(append(out, opGlobalGet), p.fuel)
	out = appendU32(append(out, opLocalGet), local)
	out = append(out, opI32Const, shift, opI32ShrU, opI32Sub)
	out = appendU32(append(out, opGlobalSet), p.fuel)
	out = appendU32(append(out, opGlobalGet), p.fuel)
	return p.refuelBelowZero(out)
}

// countChange emits the code that counts a change of state which is neither in
// memory nor in a numeric global.
func (c *codeRewriter) countChange() {
	c.emitIndex(opGlobalGet, c.state)
	c.emit(opI64Const, 1, opI64Add)
	c.emitIndex(opGlobalSet, c.state)
}

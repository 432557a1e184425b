package prepare

import (
	"bytes"
	"slices"
	"testing"
)

// numberedLoop returns a loop whose blocks are chosen by the number in a local, each
// followed by the code of a place. All further numbers are the last place's.
func numberedLoop(local byte, places ...[]byte) []byte {
	code := slices.Concat([]byte{opLoop, noResult}, bytes.Repeat([]byte{opBlock, noResult}, len(places)),
		[]byte{opLocalGet, local, opBrTable, byte(len(places) - 1)})
	for i := range places {
		code = append(code, byte(i))
	}
	for _, place := range places {
		code = slices.Concat(code, []byte{opEnd}, place)
	}
	return append(code, opEnd)
}

// numberedJump returns the jump to a number, in code that lies in so many blocks within
// the loop.
func numberedJump(local byte, number, blocks int) []byte {
	return slices.Concat(constant(number), []byte{opLocalSet, local, opBr, byte(blocks)})
}

// numberTest tests whether a local holds a number, and if so leaves blocks.
func numberTest(local byte, number int, blocks byte) []byte {
	return slices.Concat([]byte{opLocalGet, local}, constant(number), []byte{opI32Eq, opBrIf, blocks})
}

// TestDirectJumps holds which jumps become branches, and what of.
func TestDirectJumps(t *testing.T) {
	const local = 1
	join := func(code ...[]byte) []byte { return slices.Concat(code...) }
	jump := func(to, blocks int) []byte { return numberedJump(local, to, blocks) }
	set := func(to int) []byte { return append(constant(to), opLocalSet, local) }
	iff := func(code ...[]byte) []byte {
		return join([]byte{opLocalGet, 0, opIf, noResult}, join(code...), []byte{opEnd})
	}
	// Its labels are the opcodes of blocks, if they were read as instructions.
	table := []byte{opBlock, noResult, opBlock, noResult, opLocalGet, local, opBrTable, 2, 2, 3, 3, opEnd, opEnd}
	nop, first := []byte{0x01}, numberTest(local, 0, 0)
	for _, tt := range []struct {
		name   string
		places [][]byte
		tests  []byte   // before the br_table; nil: the code stays as it is
		direct [][]byte // what becomes of places
	}{
		{"ahead", [][]byte{jump(2, 2), nop, nop}, first,
			[][]byte{join(set(2), []byte{opBr, 1}), nop, nop}},
		{"ahead, from within blocks", [][]byte{join([]byte{opBlock, noResult}, iff(nop, jump(2, 4)), []byte{opEnd}), nop, nop}, first,
			[][]byte{join([]byte{opBlock, noResult}, iff(nop, set(2), []byte{opBr, 3}), []byte{opEnd}), nop, nop}},
		{"to a number that is too large", [][]byte{jump(9, 2), jump(-1, 1), nop}, first,
			[][]byte{join(set(9), []byte{opBr, 1}), join(set(-1), []byte{opBr, 0}), nop}},
		{"ahead, on a condition", [][]byte{iff(jump(2, 3)), iff(jump(2, 2)), nop}, first,
			[][]byte{{opLocalGet, 0, opBrIf, 1}, {opLocalGet, 0, opBrIf, 0}, nop}},
		{"ahead, on a condition with an else", [][]byte{iff(jump(1, 2), []byte{opElse}, nop), nop}, first,
			[][]byte{iff(set(1), []byte{opBr, 1, opElse}, nop), nop}},
		{"back and to itself", [][]byte{nop, join(iff(jump(0, 2)), jump(1, 1)), nop}, join(first, numberTest(local, 1, 1)),
			[][]byte{nop, join(iff(jump(0, 2)), jump(1, 1)), nop}},
		{"back to many", [][]byte{nop, nop, nop, nop, nop, join(jump(4, 0), jump(3, 0), jump(2, 0), jump(1, 0))},
			join(first, numberTest(local, 4, 4), numberTest(local, 3, 3), numberTest(local, 2, 2)),
			[][]byte{nop, nop, nop, nop, nop, join(jump(4, 0), jump(3, 0), jump(2, 0), jump(1, 0))}},
		{"with another local", [][]byte{numberedJump(2, 1, 2), iff(jump(2, 2)), nop}, first,
			[][]byte{numberedJump(2, 1, 2), iff(set(2), []byte{opBr, 1}), nop}},
		{"while the number is read", [][]byte{iff(jump(1, 2)), {opLocalGet, local, opDrop}}, first,
			[][]byte{iff(set(1), []byte{opBr, 1}), {opLocalGet, local, opDrop}}},
		{"while the number is read where it was just set", [][]byte{iff(jump(1, 2)), {opLocalGet, 0, opLocalSet, local, opLocalGet, local, opDrop}}, first,
			[][]byte{{opLocalGet, 0, opBrIf, 0}, {opLocalGet, 0, opLocalSet, local, opLocalGet, local, opDrop}}},
		{"while it is read where it was set on one way", [][]byte{iff(jump(1, 2)), join(iff(set(7)), []byte{opLocalGet, local, opDrop})}, first,
			[][]byte{iff(set(1), []byte{opBr, 1}), join(iff(set(7)), []byte{opLocalGet, local, opDrop})}},
		{"while it is read where an else begins", [][]byte{iff(jump(1, 2)), iff(set(7), []byte{opElse, opLocalGet, local, opDrop})}, first,
			[][]byte{iff(set(1), []byte{opBr, 1}), iff(set(7), []byte{opElse, opLocalGet, local, opDrop})}},
		{"while it is read where a loop begins", [][]byte{iff(jump(1, 2)), join(set(7), []byte{opLoop, noResult, opLocalGet, local, opDrop, opEnd})}, first,
			[][]byte{iff(set(1), []byte{opBr, 1}), join(set(7), []byte{opLoop, noResult, opLocalGet, local, opDrop, opEnd})}},
		{"while the head is reached without setting it", [][]byte{iff(jump(1, 2)), {opLocalGet, 0, opBrIf, 0}}, first,
			[][]byte{iff(set(1), []byte{opBr, 1}), {opLocalGet, 0, opBrIf, 0}}},
		{"behind a table, while the number is read", [][]byte{table, iff(jump(2, 2)), nop}, first,
			[][]byte{table, iff(set(2), []byte{opBr, 1}), nop}},
		{"while a table reaches the head", [][]byte{iff(jump(1, 2)), {opLocalGet, 0, opBrTable, 0, 0}}, first,
			[][]byte{iff(set(1), []byte{opBr, 1}), {opLocalGet, 0, opBrTable, 0, 0}}},
	} {
		head := 2 + 2*len(tt.places)
		insert := func(loop, tests []byte) []byte { return slices.Insert(slices.Clone(loop), head, tests...) }
		locals := []byte{1, 2, i32}
		got := directJumps(join(locals, numberedLoop(local, tt.places...), []byte{opEnd}))
		if want := join(locals, insert(numberedLoop(local, tt.direct...), tt.tests), []byte{opEnd}); !bytes.Equal(got, want) {
			t.Errorf("%s:\n%x, want\n%x", tt.name, got, want)
		}
		for _, option := range []Options{{}, {WithoutFuel: true}} { // and it is valid
			m, err := Rewrite(handmade(numberedLoop(local, tt.places...)), option)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := refueling(t).CompileModule(t.Context(), m.Wasm); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
	}
}

// TestDirectJumpsStandAlone holds what is around such a loop: what an outer loop repeats
// may read the number, and a block behind the loop is none of its own. A number whose
// label is that of the loop goes there.
func TestDirectJumpsStandAlone(t *testing.T) {
	places := func(to int) [][]byte {
		return [][]byte{slices.Concat([]byte{opLocalGet, 0, opIf, noResult}, numberedJump(1, to, 2), []byte{opEnd}), {0x01}}
	}
	code, conditional := numberedLoop(1, places(1)...), []byte{opLocalGet, 0, opBrIf, 0}
	outer := slices.Concat([]byte{opLoop, noResult}, code, []byte{opEnd})
	behind := slices.Concat([]byte{opBlock, noResult}, numberedJump(1, 1, 0), []byte{opEnd})
	again := numberedLoop(1, places(0)...)
	again[10] = 2 // the label of the number 0
	for _, tt := range []struct {
		name           string
		code, has, not []byte
	}{
		{"by itself", code, conditional, []byte{opIf}},
		{"in a loop", outer, []byte{opIf, noResult, opI32Const, 1, opLocalSet, 1, opBr, 1, opEnd}, conditional},
		{"before a block", slices.Concat(code, behind), slices.Concat([]byte{opEnd}, behind), []byte{opI32Const, 1, opI32Eq}},
		{"with a number for itself", again, places(0)[0], []byte{opI32Eq}},
	} {
		got := directJumps(slices.Concat([]byte{1, 2, i32}, tt.code, []byte{opEnd}))
		if !bytes.Contains(got, tt.has) || bytes.Contains(got, tt.not) {
			t.Errorf("%s: %x, want %x and not %x", tt.name, got, tt.has, tt.not)
		}
	}
}

// TestNoDirectJumps holds that other loops stay as they are.
func TestNoDirectJumps(t *testing.T) {
	loop := numberedLoop(1, numberedJump(1, 1, 1), nil)
	for name, code := range map[string][]byte{
		"no loop":                    slices.Replace(slices.Clone(loop), 0, 1, opBlock),
		"a loop with a result":       slices.Replace(slices.Clone(loop), 1, 2, i32),
		"a block with a result":      slices.Replace(slices.Clone(loop), 3, 4, i32),
		"code before the first":      slices.Insert(slices.Clone(loop), 2, 0x01),
		"code before the br_table":   slices.Insert(slices.Clone(loop), 6, 0x01),
		"code between the two":       slices.Insert(slices.Clone(loop), 8, 0x01),
		"an end that is not there":   loop[:len(loop)-1],
		"an opcode that is unknown":  slices.Insert(slices.Clone(loop), 0, 0xff),
		"a table that does not end":  loop[:10],
		"more behind the code's end": append(slices.Clone(loop), opEnd, opEnd),
	} {
		// The code of a loop that has no table comes first, for it to be read at all.
		before := []byte{opLoop, noResult, opBlock, noResult, opEnd, opEnd}
		if got := directJumps(slices.Concat([]byte{1, 2, i32}, before, code, []byte{opEnd})); got != nil {
			t.Errorf("%s: %x", name, got)
		}
	}
}

// TestDirectJumpsAreNotRefused holds that a function is not refused for the branches that
// would be added.
func TestDirectJumpsAreNotRefused(t *testing.T) {
	loop := numberedLoop(1, numberedJump(1, 1, 1), numberedJump(1, 0, 0))
	const blocks = 1024
	edges := 1 + 3 + 2 + 2 // the function, loop and blocks, table, jumps
	code := slices.Concat(appendU32([]byte{1}, maxCarried/blocks), []byte{i32}, loop,
		bytes.Repeat([]byte{opBlock, noResult, opEnd}, blocks-edges), []byte{opEnd})
	if directJumps(code) == nil {
		t.Fatal("there is nothing to add")
	}
	m, err := Rewrite(withCode([][]byte{code}), Options{WithoutFuel: true})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(m.Wasm, loop) {
		t.Error("it is not as it was")
	}
	more := slices.Concat(code[:len(code)-1], []byte{opBlock, noResult, opEnd, opEnd})
	if _, err := Rewrite(withCode([][]byte{more}), Options{}); err == nil {
		t.Error("it could have had more blocks and branches: nothing is tested here")
	}
}

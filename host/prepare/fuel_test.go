package prepare

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"partneredge/host/wasmtest"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// loads returns n loads, each of which the next one needs.
func loads(n int) []byte {
	return slices.Concat([]byte{opLocalGet, 0}, bytes.Repeat([]byte{0x28, 2, 0}, n), []byte{opLocalSet, 0})
}

// times returns code that runs body n times. It counts in local 1.
func times(n int, body []byte) []byte {
	return slices.Concat(constant(0), []byte{opLocalSet, 1, opLoop, noResult}, body,
		[]byte{opLocalGet, 1, opI32Const, 1, opI32Add, opLocalTee, 1}, constant(n), []byte{0x49, opBrIf, 0, opEnd})
}

// handmade returns a module of two pages of memory and a table of four elements whose
// function f0 has the given code, and two more locals than its parameter.
func handmade(code []byte) []byte {
	return wasmtest.Module(
		wasmtest.Section(secType, []byte{0x60, 1, i32, 1, i32}),
		wasmtest.Section(secFunction, []byte{0}),
		wasmtest.Section(secTable, []byte{funcref, 0, 4}),
		wasmtest.Section(secMemory, []byte{0, 2}),
		wasmtest.Section(secExport, wasmtest.Export("f0", byte(KindFunction), 0), wasmtest.Export("memory", byte(KindMemory), 0)),
		wasmtest.Section(secElement, []byte{1, 0, 0}), // a passive segment without functions
		wasmtest.Section(secCode, wasmtest.Function([]byte{1, 2, i32}, code, []byte{opLocalGet, 0})))
}

// run holds what a function left behind.
type run struct {
	memory []byte
	spent  int64 // fuel
	most   int64 // of it without asking for more
	err    error
}

// runHandmade runs f0 of a rewritten module.
func runHandmade(t *testing.T, code []byte, options Options) (ran run) {
	t.Helper()
	m, failed := Rewrite(handmade(code), options)
	if failed != nil {
		t.Fatal(failed)
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	defer r.Close(ctx)
	var fuel api.Global
	tick := func() int32 {
		used := -int64(int32(fuel.Get()))
		ran.spent, ran.most = ran.spent+used, max(ran.most, used)
		return 0
	}
	if _, err := r.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().WithFunc(tick).Export(ImportFuel).Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	instance, failed := r.InstantiateWithConfig(ctx, m.Wasm, wazero.NewModuleConfig().WithStartFunctions())
	if failed != nil {
		t.Fatal(failed)
	}
	fuel = instance.ExportedGlobal(ExportFuel)
	content, _ := instance.Memory().Read(0, instance.Memory().Size())
	for i := 8; i < len(content); i++ {
		content[i] = byte(i * 31 >> 3)
	}
	_, ran.err = instance.ExportedFunction("f0").Call(ctx, 0)
	content, _ = instance.Memory().Read(0, instance.Memory().Size())
	ran.memory = slices.Clone(content)
	ran.spent -= int64(int32(fuel.Get()))
	return ran
}

// TestFuel holds that code is charged for what it runs: no less, and not for what it
// skips; and that it never runs for long without a check.
func TestFuel(t *testing.T) {
	block := func(code ...[]byte) []byte {
		return slices.Concat([]byte{opBlock, noResult}, slices.Concat(code...), []byte{opEnd})
	}
	var dispatched []byte // as Go's functions: each iteration of a loop runs one of 64 blocks
	for range 64 {
		dispatched = append(dispatched, opBlock, noResult)
	}
	dispatched = append(dispatched, opLocalGet, 1, opBrTable, 63)
	for i := range 64 {
		dispatched = append(dispatched, byte(i))
	}
	for range 64 {
		dispatched = slices.Concat(dispatched, []byte{opEnd}, loads(10))
	}
	var hops []byte // from the middle of a region to the middle of the next
	for range 200 {
		hops = slices.Concat(hops, block(loads(20), []byte{opBr, 0}, loads(20)), loads(1))
	}
	var twice []byte // and on from there
	for range 100 {
		twice = slices.Concat(twice, block(block([]byte{opLocalGet, 0, opBrIf, 0}, []byte{opI32Const, 1, opBrIf, 0}, loads(40)),
			[]byte{opI32Const, 1, opBrIf, 0}, loads(30)), loads(10))
	}
	// Jumps from place to place as in Go's functions, each over one where nothing runs.
	places := make([][]byte, 61)
	for i := range places {
		places[i] = bytes.Repeat([]byte{opUnreachable}, 500)
		if i%2 == 0 {
			places[i] = slices.Concat(loads(20), numberedJump(2, i+2, len(places)-1-i))
		}
	}
	places[len(places)-1] = loads(20)
	ahead := numberedLoop(2, places...)
	// The same, and a hundred times back from the last to the first.
	places[len(places)-1] = slices.Concat(loads(20), []byte{opLocalGet, 1, opI32Const, 1, opI32Add, opLocalTee, 1}, constant(100),
		[]byte{opI32LtU, opIf, noResult}, numberedJump(2, 0, 1), []byte{opEnd})
	back := numberedLoop(2, places...)
	// Regions that begin where nothing runs, and hold code that runs to their end.
	heavy := []byte{opI32Const, 1, opBrIf, 0, opI32Const, 0, 0x40, 0, 0x1a} // skips memory.grow
	past := bytes.Repeat(slices.Concat(block(heavy), loads(28)), 200)
	overCall := block([]byte{opI32Const, 1, opBrIf, 0, opLocalGet, 0, opCall, 0, opLocalSet, 0}, loads(10))
	for _, tt := range []struct {
		name string
		code []byte
		over int64 // the fuel may be so many times what the instructions weigh
	}{
		{"straight", loads(10_000), 2},
		{"a loop", times(1000, loads(3)), 2},
		{"loops within loops", times(10, slices.Concat(loads(40), []byte{opLoop, noResult}, loads(1), []byte{opEnd}, loads(40))), 2},
		{"60 000 skipped", times(300, block([]byte{opBr, 0}, bytes.Repeat([]byte{0x01}, 60_000))), 20},
		{"60 000 skipped by an if", times(300, slices.Concat([]byte{opI32Const, 0, opIf, noResult}, bytes.Repeat([]byte{0x01}, 60_000), []byte{opEnd})), 20},
		{"an else skipped", times(300, slices.Concat([]byte{opI32Const, 1, opIf, noResult}, loads(1), []byte{opElse}, loads(20_000), []byte{opEnd}, loads(20))), 5},
		{"a then skipped", times(300, slices.Concat([]byte{opI32Const, 0, opIf, noResult}, loads(20_000), []byte{opElse}, loads(50), []byte{opEnd}, loads(20))), 5},
		{"one of 64 blocks", times(64, dispatched), 5},
		{"hops", hops, 5},
		{"hops on from where a hop led to", twice, 8},
		{"hops to regions that began before", past, 5},
		{"a hop over a call", times(300, slices.Concat(overCall, loads(25))), 5},
		{"out of a loop", times(100, block(loads(2), []byte{opLoop, noResult}, loads(2), []byte{opI32Const, 1, opBrIf, 1, opEnd}, loads(100))), 20},
		{"jumps ahead", ahead, 5},
		{"jumps ahead and back", back, 5},
		{"a copy", slices.Concat(constant(0), constant(9), constant(100_000), []byte(bulkCopy.op)), 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			least, ran := runHandmade(t, tt.code, Options{exactFuel: true}), runHandmade(t, tt.code, Options{})
			if least.err != nil || ran.err != nil {
				t.Fatal(least.err, ran.err)
			}
			t.Logf("spent %d, least %d, most at once %d", ran.spent, least.spent, ran.most)
			if ran.spent < least.spent || ran.spent > tt.over*least.spent+100 {
				t.Errorf("spent %d, want %d to %d times that", ran.spent, least.spent, tt.over)
			}
			bound := int64(3*maxUnchecked + 4*len(tt.code)/weightPerFuel) // what the function itself costs
			if bytes.HasSuffix(tt.code, []byte(bulkCopy.op)) {
				bound = piece >> bytesPerFuel
			}
			if ran.most > bound {
				t.Errorf("spent %d without a check, more than %d", ran.most, bound)
			}
		})
	}
}

// TestElements holds that operations on tables are charged for their elements, and that
// no number of them gives fuel.
func TestElements(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []byte // besides the number
		op   []byte
	}{
		{"grow", []byte{opRefNull, funcref}, []byte{opMisc, 15, 0, 0x1a}},
		{"fill", []byte{opI32Const, 0, opRefNull, funcref}, []byte{opMisc, 17, 0}},
		{"copy", []byte{opI32Const, 0, opI32Const, 0}, []byte{opMisc, 14, 0, 0}},
		{"init", []byte{opI32Const, 0, opI32Const, 0}, []byte{opMisc, 12, 0, 0}},
	} {
		for _, n := range []int{4, 60_000, maxTableCharge - 1, maxTableCharge, math.MaxInt32, math.MinInt32, -0x7fff3cb0, -1_000_000, -1} {
			t.Run(fmt.Sprint(tt.name, " ", n), func(t *testing.T) {
				ran := runHandmade(t, slices.Concat(tt.args, constant(n), tt.op), Options{})
				least := int64(min(uint32(n), maxTableCharge))
				if ran.spent < least || ran.spent > least+200 {
					t.Errorf("spent %d, want %d and little more (%v)", ran.spent, least, ran.err)
				}
			})
		}
	}
}

// TestBulk holds that an operation on memory does the same in pieces.
func TestBulk(t *testing.T) {
	const far = -0x1000 // an address near the end of 32 bits
	for _, tt := range []struct {
		name          string
		op            string
		to, second, n int
		traps         bool
	}{
		{"copy up", bulkCopy.op, 0, 100, 100_000, false},
		{"copy down", bulkCopy.op, 100, 0, 100_000, false},
		{"copy to itself", bulkCopy.op, 5, 5, 100_000, false},
		{"copy whole pieces", bulkCopy.op, 1, 0, 3 * piece, false},
		{"copy all", bulkCopy.op, 0, 0, 2 * PageSize, false},
		{"copy beyond", bulkCopy.op, 0, 100, 2 * PageSize, true},
		{"copy to beyond", bulkCopy.op, 100, 0, 2 * PageSize, true},
		{"copy from where addresses end", bulkCopy.op, 0, far, 100_000, true},
		{"copy to where addresses end", bulkCopy.op, far, 0, 100_000, true},
		{"copy of 4 GiB", bulkCopy.op, 0, 0, -1, true},
		{"fill", bulkFill.op, 77, 0xabc, 100_001, false},
		{"fill beyond", bulkFill.op, 77, 0xabc, 2 * PageSize, true},
		{"fill where addresses end", bulkFill.op, far, 0xabc, 100_000, true},
		{"fill nothing at the end", bulkFill.op, 2 * PageSize, 1, 0, false},
		{"fill nothing beyond", bulkFill.op, 2*PageSize + 1, 1, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code := slices.Concat(constant(tt.to), constant(tt.second), constant(tt.n), []byte(tt.op))
			whole, ran := runHandmade(t, code, Options{WithoutFuel: true}), runHandmade(t, code, Options{})
			if (ran.err != nil) != tt.traps || (whole.err != nil) != tt.traps {
				t.Errorf("in pieces: %v; whole: %v; want a trap: %t", ran.err, whole.err, tt.traps)
			}
			if !bytes.Equal(ran.memory, whole.memory) {
				t.Error("memory is not the same")
			}
			if !tt.traps && ran.spent < int64(tt.n>>bytesPerFuel) {
				t.Errorf("%d of fuel for %d bytes", ran.spent, tt.n)
			}
		})
	}
}

package prepare

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"partneredge/host/wasmtest"
)

// TestShortBulk holds that short operations on memory of a constant length do the same as
// loads and stores: where they overlap, at the end of memory, and where they trap.
func TestShortBulk(t *testing.T) {
	const end = 2 * PageSize
	initial := runHandmade(t, nil, Options{}).memory
	for _, n := range []int{15, 16, 17, 31, 32, 40, 127, 128, 129, 255, 256, 257} {
		for _, at := range [][2]int{{500, 900}, {500, 501}, {501, 500}, {500, 516}, {end - n, 7}, {7, end - n}, {end - n + 1, 7}, {7, end - n + 1}, {-8, 7}, {7, -8}} {
			for _, b := range []bulk{bulkCopy, bulkFill} {
				to, second := at[0], at[1]
				want, traps := slices.Clone(initial), to < 0 || to+n > end
				switch {
				case b == bulkFill && !traps:
					copy(want[to:], bytes.Repeat([]byte{byte(second)}, n))
				case b == bulkCopy:
					if traps = traps || second < 0 || second+n > end; !traps {
						copy(want[to:to+n], want[second:])
					}
				}
				code := slices.Concat(constant(to), constant(second), constant(n), []byte(b.op))
				ran := runHandmade(t, code, Options{})
				name := fmt.Sprintf("%x of %d bytes to %d, %d", b.op, n, to, second)
				if (ran.err != nil) != traps || !bytes.Equal(ran.memory, want) {
					t.Errorf("%s: %v, want a trap: %t; memory is as wanted: %t", name, ran.err, traps, bytes.Equal(ran.memory, want))
				}
				if !traps && ran.spent < int64(n>>bytesPerFuel) {
					t.Errorf("%s: %d of fuel", name, ran.spent)
				}
			}
		}
	}
}

// TestShortBulkIsReplaced holds which operations become loads and stores: of a constant,
// short length, and no more of them than an engine can compile soon.
func TestShortBulkIsReplaced(t *testing.T) {
	filled := slices.Concat(constant(8), constant(0), constant(64), []byte(bulkFill.op))
	for _, tt := range []struct {
		name string
		code []byte
		left int // operations that stay
	}{
		{"a fill", filled, 0},
		{"a copy", slices.Concat(constant(8), constant(0), constant(64), []byte(bulkCopy.op)), 0},
		{"a variable length", slices.Concat(constant(8), constant(0), []byte{opLocalGet, 0}, []byte(bulkFill.op)), 1},
		{"a variable value", slices.Concat(constant(8), []byte{opLocalGet, 0}, constant(64), []byte(bulkFill.op)), 1},
		{"a length from a block", slices.Concat(constant(8), constant(0), []byte{opBlock, i32}, constant(64), []byte{opEnd}, []byte(bulkFill.op)), 1},
		{"as many as may be", bytes.Repeat(filled, maxWords/4), 0},
		{"too many", bytes.Repeat(filled, maxWords/4+3), 3},
	} {
		m, err := Rewrite(handmade(tt.code), Options{WithoutFuel: true})
		if err != nil {
			t.Fatal(err)
		}
		if left := bytes.Count(m.Wasm, []byte(bulkFill.op)) + bytes.Count(m.Wasm, []byte(bulkCopy.op)); left != tt.left {
			t.Errorf("%s: %d are left, want %d", tt.name, left, tt.left)
		}
	}
}

// TestShortBulkOfModule holds that no more operations of a whole module become loads and
// stores than may, however many functions they are in.
func TestShortBulkOfModule(t *testing.T) {
	const most = maxModuleWords / maxWords // functions that are full of them
	filled := slices.Concat(constant(8), constant(0), constant(maxFilled), []byte(bulkFill.op))
	full := wasmtest.Function([]byte{0}, bytes.Repeat(filled, maxWords*wordSize/maxFilled))
	one := wasmtest.Function([]byte{0}, filled)
	for more, want := range []int{0, 1, 2} {
		m, err := Rewrite(wasmtest.Module(
			wasmtest.Section(secType, []byte{0x60, 0, 0}),
			wasmtest.Section(secFunction, slices.Repeat([][]byte{{0}}, most+more)...),
			wasmtest.Section(secMemory, []byte{0, 1}),
			wasmtest.Section(secCode, slices.Concat(slices.Repeat([][]byte{full}, most), slices.Repeat([][]byte{one}, more))...),
		), Options{WithoutFuel: true})
		if err != nil {
			t.Fatal(err)
		}
		if left := bytes.Count(m.Wasm, []byte(bulkFill.op)); left != want {
			t.Errorf("%d functions beyond %d: %d are left, want %d", more, most, left, want)
		}
	}
}

package prepare

import (
	"fmt"
	"testing"

	"partneredge/host/wasmtest"

	"github.com/tetratelabs/wazero"
)

// parts of a module that calls through a table.
type parts struct{ table, export, elements, code string }

// module has functions 0 and 1, of one type, that give 10 and 11, function 2,
// of another type, that gives its argument, function 3, "call", that calls the
// element of its argument as the first type, and function 4, whose code is p.code.
func (p parts) module() []byte {
	function := func(code string) []byte { return wasmtest.Function([]byte{0}, []byte(code)) }
	sections := [][]byte{
		wasmtest.Section(secType, []byte{0x60, 0, 1, i32}, []byte{0x60, 1, i32, 1, i32}, []byte{0x60, 0, 0}),
		wasmtest.Section(secFunction, []byte{0}, []byte{0}, []byte{1}, []byte{1}, []byte{2}),
		wasmtest.RawSection(secTable, []byte(p.table)),
		wasmtest.Section(secExport, wasmtest.Export("call", byte(KindFunction), 3), []byte(p.export)),
	}
	if p.elements != "" {
		sections = append(sections, wasmtest.RawSection(secElement, []byte(p.elements)))
	}
	return wasmtest.Module(append(sections, wasmtest.Section(secCode,
		function("\x41\x0a"), function("\x41\x0b"), function("\x20\x00"), function("\x20\x00\x11\x00\x00"), function(p.code)))...)
}

// TestIndirect: an element is called, or not, with a table as without, and the
// table stays when anything but call_indirect could come to it.
func TestIndirect(t *testing.T) {
	const (
		none   = "\x05other\x00\x04"
		sparse = "\x01\x00\x41\x02\x0b\x05\x00\x02\x01\x00\x01" // from 2 on: 0, 2, 1, 0, 1
	)
	for _, test := range []struct {
		name string
		parts
		fixed bool
	}{
		{"active segment", parts{"\x01\x70\x00\x09", none, sparse, ""}, true},
		{"later segment wins", parts{"\x01\x70\x00\x09", none,
			"\x02\x00\x41\x02\x0b\x02\x00\x00\x00\x41\x03\x0b\x02\x01\x01", ""}, true},
		{"expressions", parts{"\x01\x70\x00\x09", none,
			"\x01\x04\x41\x01\x0b\x03\xd2\x01\x0b\xd0\x70\x0b\xd2\x00\x0b", ""}, true},
		{"nothing in it", parts{"\x01\x70\x00\x09", none, "", ""}, true},
		{"empty", parts{"\x01\x70\x00\x00", none, "", ""}, true},
		{"exported", parts{"\x01\x70\x00\x09", "\x05other\x01\x00", sparse, ""}, false},
		{"declarative segment", parts{"\x01\x70\x00\x09", none, "\x01\x03\x00\x01\x00", ""}, false},
		{"table.get", parts{"\x01\x70\x00\x09", none, sparse, "\x41\x00\x25\x00\x1a"}, false},
		{"table.set", parts{"\x01\x70\x00\x09", none, sparse, "\x41\x00\xd0\x70\x26\x00"}, false},
		{"table.size", parts{"\x01\x70\x00\x09", none, sparse, "\xfc\x10\x00\x1a"}, false},
		{"table.grow", parts{"\x01\x70\x00\x09", none, sparse, "\xd0\x70\x41\x01\xfc\x0f\x00\x1a"}, false},
		{"table.fill", parts{"\x01\x70\x00\x09", none, sparse, "\x41\x00\xd0\x70\x41\x00\xfc\x11\x00"}, false},
		{"table.copy", parts{"\x01\x70\x00\x09", none, sparse, "\x41\x00\x41\x00\x41\x00\xfc\x0e\x00\x00"}, false},
		{"table.init", parts{"\x01\x70\x00\x09", none, sparse, "\x41\x00\x41\x00\x41\x00\xfc\x0c\x00\x00"}, false},
		{"elem.drop", parts{"\x01\x70\x00\x09", none, sparse, "\xfc\x0d\x00"}, false},
		{"ref.func", parts{"\x01\x70\x00\x09", none, sparse, "\xd2\x00\x1a"}, false},
		{"segment outside", parts{"\x01\x70\x00\x06", none, sparse, ""}, false},
		{"empty segment outside", parts{"\x01\x70\x00\x01", none, "\x01\x00\x41\x02\x0b\x00", ""}, false},
		{"large", parts{"\x01\x70\x00\x81\x80\x01", none, sparse, ""}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			wasm := test.module()
			p := &rewriter{module: &Module{}}
			r := &reader{b: wasm, at: len(header)}
			p.split(r)
			p.rewrite(r)
			if r.err != nil {
				t.Fatal(r.err)
			}
			if p.calls.fixed != test.fixed {
				t.Errorf("the table is held to be fixed: %v, want %v", p.calls.fixed, test.fixed)
			}
			plain, rewritten := calls(t, wasm), calls(t, p.join())
			for i := range plain {
				if rewritten[i] != plain[i] {
					t.Errorf("element %d: %s, want %s", i-1, rewritten[i], plain[i])
				}
			}
		})
	}
}

// TestOffsetTooLarge: an offset of more than 32 bits is no offset, also where the
// engine no longer sees it.
func TestOffsetTooLarge(t *testing.T) {
	const offset = "\x41\x82\x80\x80\x80\x20\x0b" // 2 and a bit too many
	for name, wasm := range map[string][]byte{
		"element": parts{"\x01\x70\x00\x09", "\x05other\x00\x04", "\x01\x00" + offset + "\x01\x00", ""}.module(),
		"data":    []byte(string(header) + "\x05\x03\x01\x00\x01" + "\x0b\x0b\x01\x00" + offset + "\x01x"),
	} {
		t.Run(name, func(t *testing.T) {
			r := wazero.NewRuntime(t.Context())
			defer r.Close(t.Context())
			if _, err := r.CompileModule(t.Context(), wasm); err == nil {
				t.Fatal("the engine takes the module as it is")
			}
			m, err := Rewrite(wasm, Options{})
			if err != nil {
				return
			}
			if _, err := r.CompileModule(t.Context(), m.Wasm); err == nil {
				t.Error("rewritten, the module is taken")
			}
		})
	}
}

// calls returns what each element does, from -1 on.
func calls(t *testing.T, wasm []byte) (done []string) {
	t.Helper()
	ctx := t.Context()
	m, err := refueling(t).Instantiate(ctx, wasm)
	if err != nil {
		t.Fatal(err)
	}
	for i := -1; i < 12; i++ {
		result, err := m.ExportedFunction("call").Call(ctx, uint64(uint32(i)))
		if err != nil {
			done = append(done, "a trap")
		} else {
			done = append(done, fmt.Sprint(result))
		}
	}
	return done
}

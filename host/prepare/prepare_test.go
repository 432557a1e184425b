package prepare

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"partneredge/host/wasmtest"
)

// engineDir is where the engine's sources lie, with the specification's test
// suite among them.
func engineDir(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatalf("find the engine's sources: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// corpus is some modules of many compilers.
func corpus(t testing.TB) map[string][]byte {
	root := engineDir(t)
	modules := map[string][]byte{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".wasm" || strings.Contains(path, "spectest") {
			return err
		}
		b, err := os.ReadFile(path)
		modules[strings.TrimPrefix(path, root+"/")] = b
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) < 50 {
		t.Fatalf("only %d modules", len(modules))
	}
	return modules
}

// TestCorpus rewrites what C, Rust, Zig, TinyGo, Go and AssemblyScript
// compilers made, and has the engine check the result.
func TestCorpus(t *testing.T) {
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	defer r.Close(ctx)
	done, refused := 0, 0
	for name, wasm := range corpus(t) {
		m, err := Rewrite(wasm, Options{})
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Offset > len(wasm) {
				t.Errorf("%s: %v", name, err)
			}
			refused++
			t.Logf("%s: %v", name, err)
			if c, cerr := r.CompileModule(ctx, wasm); cerr == nil {
				_ = c.Close(ctx)
				if !strings.Contains(err.Error(), "not supported") {
					t.Errorf("%s: a valid module is refused: %v", name, err)
				}
			}
			continue
		}
		c, err := r.CompileModule(ctx, m.Wasm)
		if err != nil {
			if _, perr := r.CompileModule(ctx, wasm); perr == nil {
				t.Errorf("%s: rewritten, it is no longer valid: %v", name, err)
			}
			continue
		}
		_ = c.Close(ctx)
		done++
	}
	t.Logf("%d modules rewritten, %d refused", done, refused)
	if done < 50 {
		t.Error("too few")
	}
}

// FuzzRewrite: no input makes it panic or take long, and what it accepts as
// valid was valid.
func FuzzRewrite(f *testing.F) {
	for name, wasm := range corpus(f) {
		if len(wasm) < 4096 {
			f.Add(wasm)
		} else if strings.Contains(name, "fuzzcases") {
			f.Add(wasm[:4096])
		}
	}
	r := wazero.NewRuntimeWithConfig(f.Context(), wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	f.Cleanup(func() { _ = r.Close(f.Context()) })
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := Rewrite(wasm, Options{})
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(wasm) || e.What == "" {
				t.Fatalf("not a clear error: %v", err)
			}
			return
		}
		if len(m.Wasm) > 64*len(wasm)+1024 {
			t.Fatalf("%d bytes became %d", len(wasm), len(m.Wasm))
		}
		ctx := t.Context()
		if c, err := r.CompileModule(ctx, wasm); err == nil {
			_ = c.Close(ctx)
			c, err := r.CompileModule(ctx, m.Wasm)
			if err != nil {
				t.Fatalf("a valid module is no longer valid: %v", err)
			}
			_ = c.Close(ctx)
		}
	})
}

// TestRewriteStart holds that a rewritten module starts as it would have done by
// itself, once its data is in memory.
func TestRewriteStart(t *testing.T) {
	// (memory 1 9) (global (mut i32) 1) (global (mut i64) 2) (global (mut f32) 0)
	// (global (mut f64) 0) (data (i32.const 8) "hi")
	wasm := []byte("\x00asm\x01\x00\x00\x00" +
		"\x05\x04\x01\x01\x01\x09" +
		"\x06\x1f\x04\x7f\x01\x41\x01\x0b\x7e\x01\x42\x02\x0b\x7d\x01\x43\x00\x00\x00\x00\x0b\x7c\x01\x44\x00\x00\x00\x00\x00\x00\x00\x00\x0b" +
		"\x0b\x08\x01\x00\x41\x08\x0b\x02hi")
	m, err := Rewrite(wasm, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Pages != 1 || m.MaxPages != 9 || len(m.Data) != 1 || m.Data[0].Offset != 8 || string(m.Data[0].Bytes) != "hi" {
		t.Errorf("got %+v", m)
	}
	instance, err := refueling(t).Instantiate(t.Context(), m.Wasm)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint64{1, 2, 0, 0} {
		if got := instance.ExportedGlobal(m.Globals[i]).Get(); got != want {
			t.Errorf("global %d: got %#x, want %#x", i, got, want)
		}
	}
}

// TestCost holds that a function may be as long as the bound and no longer, and that
// its loops are bounded, and its locals and blocks together.
func TestCost(t *testing.T) {
	for _, tt := range []struct {
		name string
		wasm []byte
		why  string // "": it is accepted
	}{
		{"long", withFunctions(2, MaxFunction), ""},
		{"longer", withFunctions(2, MaxFunction+1), "function 1 of those it defines has 65537 bytes of code, more than 65536: build the module optimized, or split the function"},
		{"blocks", withBlocks(1024, opBlock, 1023), ""}, // and the function itself is one
		{"more blocks", withBlocks(1024, opBlock, 1024), "function has 1024 locals and 1025 blocks and branches, the product of which is more than 1048576: build the module optimized, or split the function"},
		{"loops", withBlocks(0, opLoop, maxLoops), ""},
		{"more loops", withBlocks(0, opLoop, maxLoops+1), "function has 1001 loops, more than 1000: build the module optimized, or split the function"},
	} {
		_, err := Rewrite(tt.wasm, Options{})
		for what, err := range map[string]error{"rewrite": err, "check": CheckCost(tt.wasm)} {
			if tt.why == "" && err != nil || tt.why != "" && (err == nil || !strings.Contains(err.Error(), tt.why)) {
				t.Errorf("%s, %s: %v, want %q", tt.name, what, err, tt.why)
			}
		}
	}
	if err := CheckCost([]byte("no module at all")); err != nil {
		t.Errorf("another fault: %v", err)
	}
}

// withBlocks returns a module of one function, with so many locals and empty blocks or
// loops.
func withBlocks(locals int, op byte, blocks int) []byte {
	body := append(appendU32([]byte{1}, uint32(locals)), i32)
	body = append(append(body, bytes.Repeat([]byte{op, noResult, opEnd}, blocks)...), opEnd)
	return withCode([][]byte{body})
}

// withFunctions returns a module of n functions that do nothing, the last with length
// bytes of code.
func withFunctions(n, length int) []byte {
	bodies := make([][]byte, n)
	for i := range bodies {
		bodies[i] = []byte{0, opEnd}
	}
	bodies[n-1] = slices.Concat([]byte{0}, bytes.Repeat([]byte{0x01}, length-2), []byte{opEnd})
	return withCode(bodies)
}

// withCode returns a module of functions without parameters and results.
func withCode(bodies [][]byte) []byte {
	types, code := appendU32(nil, uint32(len(bodies))), appendU32(nil, uint32(len(bodies)))
	for _, body := range bodies {
		types = append(types, 0)
		code = append(appendU32(code, uint32(len(body))), body...)
	}
	wasm := slices.Clone(header)
	for _, s := range []struct {
		id      byte
		content []byte
	}{{secType, []byte{1, 0x60, 0, 0}}, {secFunction, types}, {secCode, code}} {
		wasm = append(appendU32(append(wasm, s.id), uint32(len(s.content))), s.content...)
	}
	return wasm
}

// refueling returns a runtime whose guests get more fuel whenever they ask.
func refueling(t *testing.T) wazero.Runtime {
	t.Helper()
	r := wazero.NewRuntime(t.Context())
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	if _, err := r.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
		WithFunc(func() uint32 { return 1 }).Export(ImportFuel).Instantiate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTablesAreBoundedTogether: what a module's tables start with is in the host's memory,
// which no limit of the module's own memory bounds.
func TestTablesAreBoundedTogether(t *testing.T) {
	tables := func(sizes ...int) (all [][]byte) {
		for _, size := range sizes {
			all = append(all, slices.Concat([]byte{funcref, 0}, wasmtest.U(size)))
		}
		return all
	}
	module := func(tables [][]byte) []byte { return wasmtest.Module(wasmtest.Section(secTable, tables...)) }
	checkBounds(t, []boundTest{
		{"one of the most elements", module(tables(maxTableStart)), ""},
		{"two with as many together", module(tables(maxTableStart/2, maxTableStart/2)), ""},
		{"two with more together", module(tables(maxTableStart, 1)), "more than the limit"},
		{"as many as there may be", module(tables(make([]int, maxTables)...)), ""},
		{"one more", module(tables(make([]int, maxTables+1)...)), "more than 16 tables"},
	})
}

// boundTest is a module at a bound or beyond it.
type boundTest struct {
	name string
	wasm []byte
	want string // of the error; "": the module is accepted
}

func checkBounds(t *testing.T, tests []boundTest) {
	t.Helper()
	for _, test := range tests {
		_, err := Rewrite(test.wasm, Options{})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// TestGlobalsAreBounded: each sandbox holds a module's globals outside its memory.
func TestGlobalsAreBounded(t *testing.T) {
	globals := func(n int) []byte {
		return wasmtest.Section(secGlobal, slices.Repeat([][]byte{{i32, 1, opI32Const, 0, opEnd}}, n)...)
	}
	imported := wasmtest.Section(secImport, slices.Concat(wasmtest.Name("m"), wasmtest.Name("g"), []byte{byte(KindGlobal), i32, 0}))
	checkBounds(t, []boundTest{
		{"as many as there may be", wasmtest.Module(globals(maxGlobals)), ""},
		{"one more", wasmtest.Module(globals(maxGlobals + 1)), "1001 globals, more than the limit of 1000"},
		{"one more, which is imported", wasmtest.Module(imported, globals(maxGlobals)), "1001 globals, more than the limit of 1000"},
	})
}

// TestSegmentsAreBounded: each sandbox holds outside its memory what a module's segments give
// its tables, and all passive segments.
func TestSegmentsAreBounded(t *testing.T) {
	const passive = 1
	function := []byte{0}
	elements := func(counts ...int) []byte {
		var segments [][]byte
		for _, n := range counts {
			segments = append(segments, slices.Concat([]byte{passive, 0}, wasmtest.U(n), slices.Repeat(function, n)))
		}
		return wasmtest.Module(
			wasmtest.Section(secType, []byte{0x60, 0, 0}),
			wasmtest.Section(secFunction, []byte{0}),
			wasmtest.Section(secElement, segments...),
			wasmtest.Section(secCode, wasmtest.Function([]byte{0})))
	}
	data := func(n int, last ...byte) []byte {
		return wasmtest.Module(
			wasmtest.Section(secMemory, []byte{0, 1}),
			wasmtest.Section(secData, append(slices.Repeat([][]byte{{0, opI32Const, 0, opEnd, 0}}, n-1), last)...))
	}
	checkBounds(t, []boundTest{
		{"as many elements as there may be", elements(maxSegments - 1), ""},
		{"one more", elements(maxSegments), "more than 100000"},
		{"as many in two segments", elements(maxSegments/2, maxSegments/2-2), ""},
		{"one more in two segments", elements(maxSegments/2, maxSegments/2-1), "more than 100000"},
		{"as many empty segments as there may be", elements(make([]int, maxSegments)...), ""},
		{"one more empty segment", elements(make([]int, maxSegments+1)...), "more than 100000"},
		{"as many data segments as may stay", data(maxSegments, passive, 0), ""},
		{"one more data segment", data(maxSegments+1, passive, 0), "100001 data segments that stay"},
		{"as many that are all active", data(maxSegments+1, 0, opI32Const, 0, opEnd, 0), ""},
	})
}

// TestTypesAreBounded: what a branch carries costs no fuel.
func TestTypesAreBounded(t *testing.T) {
	module := func(params, results int) []byte {
		return wasmtest.Module(wasmtest.Section(secType, slices.Concat([]byte{0x60},
			wasmtest.Sized(bytes.Repeat([]byte{i32}, params)), wasmtest.Sized(bytes.Repeat([]byte{i32}, results)))))
	}
	checkBounds(t, []boundTest{
		{"as many parameters as there may be", module(maxValues, 0), ""},
		{"one more", module(maxValues+1, 0), "type of 65 parameters and results, more than 64, is not supported"},
		{"as many results", module(0, maxValues), ""},
		{"one more result", module(0, maxValues+1), "type of 65 parameters and results"},
		{"as many of both", module(maxValues/2, maxValues/2), ""},
		{"one more of both", module(maxValues/2, maxValues/2+1), "type of 65 parameters and results"},
	})
}

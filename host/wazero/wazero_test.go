package wazero

import (
	"reflect"
	"testing"

	"partneredge/host/engine"
	linear "partneredge/host/memory"
	"partneredge/host/wasmtest"
)

// TestFunctionOfType holds that an exported function is found by its type as well, and that
// wazero makes no definitions for that: those of a release are in a node's heap else.
func TestFunctionOfType(t *testing.T) {
	e, err := New(t.Context(), engine.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(t.Context())
	opened, err := e.Compile(t.Context(), wasmtest.Module(
		wasmtest.Section(1, []byte{0x60, 0, 0}, []byte{0x60, 2, engine.I32, engine.F64, 1, engine.I64}),
		wasmtest.Section(3, []byte{0}, []byte{1}),
		wasmtest.Section(5, []byte{0, 1}),
		wasmtest.Section(7, wasmtest.Export("f", 0, 1)),
		wasmtest.Section(10, wasmtest.Function([]byte{0}), wasmtest.Function([]byte{0}, wasmtest.I64(7)))))
	if err != nil {
		t.Fatal(err)
	}
	strategy, err := linear.Choose(linear.Auto)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := linear.New(64<<10, strategy)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Free()
	started, err := opened.Start(t.Context(), mem)
	if err != nil {
		t.Fatal(err)
	}
	defer started.Close(t.Context())
	type types = []engine.ValueType
	for _, tt := range []struct {
		name            string
		params, results types
		want            bool
	}{
		{"f", types{engine.I32, engine.F64}, types{engine.I64}, true},
		{"f", types{engine.F64, engine.I32}, types{engine.I64}, false},
		{"f", types{engine.I32, engine.F64}, nil, false},
		{"f", nil, nil, false},
		{"g", types{engine.I32, engine.F64}, types{engine.I64}, false},
	} {
		if got := started.Function(tt.name, tt.params, tt.results) != nil; got != tt.want {
			t.Errorf("%s(%x) %x is found: %t, want %t", tt.name, tt.params, tt.results, got, tt.want)
		}
	}
	source := field(field(reflect.ValueOf(started.(*instance).module.ExportedFunction("f")), "parent"), "module")
	definitions := field(field(source, "Source"), "FunctionDefinitionSection")
	if definitions.Kind() != reflect.Slice || definitions.Len() > 0 {
		t.Errorf("wazero's definitions are %v, want none: does this version keep types elsewhere?", definitions)
	}
}

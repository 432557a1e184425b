package prepare

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
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

type specFile struct {
	Commands []struct {
		Type       string
		Line       int
		Name       string
		Filename   string
		As         string
		ModuleType string `json:"module_type"`
		Action     struct {
			Type, Field, Module string
			Args                []struct {
				Type     string
				LaneType string `json:"lane_type"`
				Value    any
			}
		}
	}
}

// world is an engine with the modules of one spec file, as they are or rewritten.
type world struct {
	t       *testing.T
	ctx     context.Context
	runtime wazero.Runtime
	names   map[string]api.Module // as registered
	modules map[string]api.Module // as named in the file
	last    api.Module
	rewrite bool
	ticks   int
	asIs    int // modules that cannot be rewritten, for a reason that is known
}

func newWorld(t *testing.T, spectest []byte, rewrite bool) *world {
	w := &world{t: t, names: map[string]api.Module{}, modules: map[string]api.Module{}, rewrite: rewrite}
	w.ctx = experimental.WithImportResolver(context.Background(), func(name string) api.Module { return w.names[name] })
	w.runtime = wazero.NewRuntimeWithConfig(w.ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	t.Cleanup(func() { _ = w.runtime.Close(w.ctx) })
	_, err := w.runtime.NewHostModuleBuilder("edge").NewFunctionBuilder().
		WithFunc(func() uint32 { w.ticks++; return 100 }).Export("tick").Instantiate(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := w.runtime.InstantiateWithConfig(w.ctx, spectest, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	w.names["spectest"] = m
	return w
}

// load instantiates a module.
func (w *world) load(wasm []byte) (api.Module, error) {
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	if !w.rewrite {
		return w.runtime.InstantiateWithConfig(w.ctx, wasm, config)
	}
	p, err := Rewrite(wasm, Options{})
	if err != nil {
		if strings.Contains(err.Error(), "offset of a data segment") {
			w.asIs++
			return w.runtime.InstantiateWithConfig(w.ctx, wasm, config)
		}
		return nil, err
	}
	m, err := w.runtime.InstantiateWithConfig(w.ctx, p.Wasm, config)
	if err != nil {
		return nil, fmt.Errorf("rewritten: %w", err)
	}
	for _, s := range p.Data {
		if !m.Memory().Write(s.Offset, s.Bytes) {
			return nil, fmt.Errorf("lay in data at %#x", s.Offset)
		}
	}
	if p.HasStart {
		if _, err := m.ExportedFunction(Start).Call(w.ctx); err != nil {
			return nil, fmt.Errorf("start: %w", err)
		}
	}
	for _, g := range p.Globals {
		if _, ok := m.ExportedGlobal(g.Name).(api.MutableGlobal); !ok {
			return nil, fmt.Errorf("global %s is not exported", g.Name)
		}
	}
	return m, nil
}

func (w *world) act(module, field string, kind string, args []uint64) string {
	m := w.last
	if module != "" {
		m = w.modules[module]
	}
	if m == nil {
		return "no module"
	}
	if kind == "get" {
		return fmt.Sprint(m.ExportedGlobal(field).Get())
	}
	res, err := m.ExportedFunction(field).Call(w.ctx, args...)
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		// What has become a direct call knows of no element of another type.
		return strings.ReplaceAll(text, "indirect call type mismatch", "invalid table access")
	}
	return fmt.Sprint(res)
}

// TestSpec runs the specification's test suite twice, with the modules as they
// are and rewritten, and compares what every action comes to. A module that is
// not valid must stay so.
func TestSpec(t *testing.T) {
	root := filepath.Join(engineDir(t), "internal/integration_test/spectest")
	spectest, err := os.ReadFile(filepath.Join(root, "testdata/spectest.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(root, "v[12]/testdata/*.json"))
	if len(files) < 200 {
		t.Fatalf("only %d spec files", len(files))
	}
	var modules, actions, invalid, asIs, ticks int
	for _, file := range files {
		name := filepath.Base(filepath.Dir(filepath.Dir(file))) + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
		if testing.Short() && strings.Contains(name, "simd") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var spec specFile
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &spec); err != nil {
				t.Fatal(err)
			}
			plain, prepared := newWorld(t, spectest, false), newWorld(t, spectest, true)
			for _, c := range spec.Commands {
				at := fmt.Sprintf("line %d %s %s", c.Line, c.Type, c.Filename)
				switch c.Type {
				case "module":
					modules++
					wasm, err := os.ReadFile(filepath.Join(filepath.Dir(file), c.Filename))
					if err != nil {
						t.Fatal(err)
					}
					for _, w := range []*world{plain, prepared} {
						m, err := w.load(wasm)
						if err != nil {
							t.Fatalf("%s: rewrite %v: %v", at, w.rewrite, err)
						}
						w.last = m
						if c.Name != "" {
							w.modules[c.Name] = m
						}
					}
				case "register":
					for _, w := range []*world{plain, prepared} {
						m := w.last
						if c.Name != "" {
							m = w.modules[c.Name]
						}
						w.names[c.As] = m
					}
				case "assert_return", "action", "assert_trap", "assert_exhaustion":
					actions++
					var args []uint64
					for _, a := range c.Action.Args {
						args = append(args, bits(a.Type, a.LaneType, a.Value)...)
					}
					want := plain.act(c.Action.Module, c.Action.Field, c.Action.Type, args)
					got := prepared.act(c.Action.Module, c.Action.Field, c.Action.Type, args)
					if got != want && !pointers(c.Action.Field, got, want) {
						t.Errorf("%s: %s(%v): got %s, want %s", at, c.Action.Field, args, got, want)
					}
				case "assert_malformed", "assert_invalid", "assert_unlinkable", "assert_uninstantiable":
					if !strings.HasSuffix(c.Filename, ".wasm") {
						continue
					}
					invalid++
					wasm, err := os.ReadFile(filepath.Join(filepath.Dir(file), c.Filename))
					if err != nil {
						t.Fatal(err)
					}
					_, perr := plain.load(wasm)
					_, err = prepared.load(wasm)
					// The start function becomes an export, which makes ref.func of it valid.
					if (err == nil) != (perr == nil) && c.Filename != "ref_func.5.wasm" {
						t.Errorf("%s: rewritten %v, plain %v", at, err, perr)
					}
				}
			}
			asIs += prepared.asIs
			ticks += prepared.ticks
		})
	}
	t.Logf("%d modules (%d as they are), %d actions, %d invalid modules, %d ticks", modules, asIs, actions, invalid, ticks)
	if asIs > 30 || ticks == 0 || modules < 500 {
		t.Error("too little was rewritten")
	}
}

// pointers tells of results that are addresses in the host, which differ.
func pointers(field, got, want string) bool {
	return len(got) > 12 && len(want) > 12 && !strings.Contains(got+want, "wasm error") &&
		slices.Contains([]string{"get", "is_null-f", "ref"}, field)
}

func bits(kind, lanes string, value any) []uint64 {
	if list, ok := value.([]any); ok {
		width := map[string]int{"i8": 8, "i16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}[lanes]
		var v [2]uint64
		for i, l := range list {
			v[i*width/64] |= number(l) << (i * width % 64)
		}
		return v[:]
	}
	if kind == "externref" && value != "null" {
		return []uint64{number(value) + 1}
	}
	return []uint64{number(value)}
}

func number(value any) uint64 {
	s, _ := value.(string)
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return uint64(v)
	}
	v, _ := strconv.ParseUint(s, 10, 64)
	return v
}

//go:build !race

package prepare

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

type specFile struct{ Commands []specCommand }

type specCommand struct {
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

// sum returns a digest of the file's commands and of the modules that they name,
// which lie in dir.
func (f specFile) sum(t *testing.T, dir string) (sum [sha256.Size]byte) {
	t.Helper()
	h := sha256.New()
	for _, c := range f.Commands {
		fmt.Fprintf(h, "%+v\n", c)
		if c.Filename != "" {
			h.Write(readFile(t, filepath.Join(dir, c.Filename)))
		}
	}
	h.Sum(sum[:0])
	return sum
}

// specRun runs one file of the suite, with its modules as they are or rewritten.
type specRun struct {
	t       *testing.T
	ctx     context.Context
	runtime wazero.Runtime
	names   map[string]api.Module // as registered
	modules map[string]api.Module // as named in the file
	last    api.Module
	rewrite bool
	refuels int
	asIs    int // modules that cannot be rewritten, for a reason that is known
}

func newSpecRun(t *testing.T, spectest []byte, rewrite bool) *specRun {
	r := &specRun{t: t, names: map[string]api.Module{}, modules: map[string]api.Module{}, rewrite: rewrite}
	r.ctx = experimental.WithImportResolver(context.Background(), func(name string) api.Module { return r.names[name] })
	r.runtime = wazero.NewRuntimeWithConfig(r.ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	t.Cleanup(func() { _ = r.runtime.Close(r.ctx) })
	_, err := r.runtime.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().
		WithFunc(func() uint32 { r.refuels++; return 100 }).Export(ImportFuel).Instantiate(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.runtime.InstantiateWithConfig(r.ctx, spectest, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	r.names["spectest"] = m
	return r
}

// load instantiates a module.
func (r *specRun) load(wasm []byte) (api.Module, error) {
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	if !r.rewrite {
		return r.runtime.InstantiateWithConfig(r.ctx, wasm, config)
	}
	p, err := Rewrite(wasm, Options{})
	if err != nil {
		if strings.Contains(err.Error(), "offset of a data segment") || strings.Contains(err.Error(), "type of 101 parameters and results") {
			r.asIs++
			return r.runtime.InstantiateWithConfig(r.ctx, wasm, config)
		}
		return nil, err
	}
	m, err := r.runtime.InstantiateWithConfig(r.ctx, p.Wasm, config)
	if err != nil {
		return nil, fmt.Errorf("rewritten: %r", err)
	}
	for _, s := range p.Data {
		if !m.Memory().Write(s.Offset, s.Bytes) {
			return nil, fmt.Errorf("copy data to %#x", s.Offset)
		}
	}
	if start := m.ExportedFunction(ExportStart); start != nil {
		if _, err := start.Call(r.ctx); err != nil {
			return nil, fmt.Errorf("start: %r", err)
		}
	}
	for _, name := range p.Globals {
		if _, ok := m.ExportedGlobal(name).(api.MutableGlobal); !ok {
			return nil, fmt.Errorf("global %s is not exported", name)
		}
	}
	return m, nil
}

func (r *specRun) act(module, field string, kind string, args []uint64) string {
	m := r.last
	if module != "" {
		m = r.modules[module]
	}
	if m == nil {
		return "no module"
	}
	if kind == "get" {
		return fmt.Sprint(m.ExportedGlobal(field).Get())
	}
	res, err := m.ExportedFunction(field).Call(r.ctx, args...)
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		// What has become a direct call knows of no element of another type.
		return strings.ReplaceAll(text, "indirect call type mismatch", "invalid table access")
	}
	return fmt.Sprint(res)
}

// specCounts counts the outcomes of a run of the suite.
type specCounts struct{ modules, actions, invalid, asIs, refuels int }

// TestSpec runs the specification's test suite twice, with the modules as they
// are and rewritten, and compares the result of every action. A module that is
// not valid must stay so. A file that two versions of the suite have is run once.
// It runs in one goroutine, and the race detector makes half a minute of it: `make test`
// runs it without.
func TestSpec(t *testing.T) {
	root := filepath.Join(engineDir(t), "internal/integration_test/spectest")
	spectest := readFile(t, filepath.Join(root, "testdata/spectest.wasm"))
	files, _ := filepath.Glob(filepath.Join(root, "v[12]/testdata/*.json"))
	if len(files) < 200 {
		t.Fatalf("only %d spec files", len(files))
	}
	var n specCounts
	seen := map[[sha256.Size]byte]bool{}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(filepath.Dir(file))) + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
		if testing.Short() && strings.Contains(name, "simd") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var spec specFile
			if err := json.Unmarshal(readFile(t, file), &spec); err != nil {
				t.Fatal(err)
			}
			sum := spec.sum(t, filepath.Dir(file))
			if seen[sum] {
				return
			}
			seen[sum] = true
			p := specPair{t, filepath.Dir(file), newSpecRun(t, spectest, false), newSpecRun(t, spectest, true), &n}
			for _, c := range spec.Commands {
				p.run(c)
			}
			n.asIs += p.prepared.asIs
			n.refuels += p.prepared.refuels
		})
	}
	t.Logf("%+v", n)
	if n.asIs > 30 || n.refuels == 0 || n.modules < 500 {
		t.Error("too little was rewritten")
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// specPair runs one file of the suite both ways.
type specPair struct {
	t               *testing.T
	dir             string
	plain, prepared *specRun
	counts          *specCounts
}

func (p specPair) run(c specCommand) {
	t, at := p.t, fmt.Sprintf("line %d %s %s", c.Line, c.Type, c.Filename)
	switch c.Type {
	case "module":
		p.counts.modules++
		wasm := readFile(t, filepath.Join(p.dir, c.Filename))
		for _, r := range []*specRun{p.plain, p.prepared} {
			m, err := r.load(wasm)
			if err != nil {
				t.Fatalf("%s: rewrite %v: %v", at, r.rewrite, err)
			}
			r.last = m
			if c.Name != "" {
				r.modules[c.Name] = m
			}
		}
	case "register":
		for _, r := range []*specRun{p.plain, p.prepared} {
			m := r.last
			if c.Name != "" {
				m = r.modules[c.Name]
			}
			r.names[c.As] = m
		}
	case "assert_return", "action", "assert_trap", "assert_exhaustion":
		p.counts.actions++
		var args []uint64
		for _, a := range c.Action.Args {
			args = append(args, bits(a.Type, a.LaneType, a.Value)...)
		}
		want := p.plain.act(c.Action.Module, c.Action.Field, c.Action.Type, args)
		got := p.prepared.act(c.Action.Module, c.Action.Field, c.Action.Type, args)
		if got != want && !pointers(c.Action.Field, got, want) {
			t.Errorf("%s: %s(%v): got %s, want %s", at, c.Action.Field, args, got, want)
		}
	case "assert_malformed", "assert_invalid", "assert_unlinkable", "assert_uninstantiable":
		if !strings.HasSuffix(c.Filename, ".wasm") {
			return
		}
		p.counts.invalid++
		wasm := readFile(t, filepath.Join(p.dir, c.Filename))
		_, perr := p.plain.load(wasm)
		_, err := p.prepared.load(wasm)
		// The start function becomes an export, which makes ref.func of it valid.
		if (err == nil) != (perr == nil) && c.Filename != "ref_func.5.wasm" {
			t.Errorf("%s: rewritten %v, plain %v", at, err, perr)
		}
	}
}

// pointers reports whether the results are addresses in the host, which differ.
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

package command

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "partneredge/"

// listed holds the fields of `go list -json` that the rules read.
type listed struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	CgoFiles     []string
	Imports      []string
	Deps         []string
	TestImports  []string
	XTestImports []string
	Standard     bool
}

func list(t *testing.T, env []string, patterns ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles,Imports,Deps,TestImports,XTestImports,Standard"}, patterns...)...)
	cmd.Dir = "../.."
	cmd.Env = append(cmd.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("listing packages: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var packages []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := dec.Decode(&p)
		if err == io.EOF {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		p.GoFiles = append(p.GoFiles, p.CgoFiles...)
		packages = append(packages, p)
	}
}

// listAll lists all packages, those of the host as each engine has them built.
func listAll(t *testing.T) []listed {
	t.Helper()
	all := append(list(t, nil, "./..."), list(t, []string{"CGO_ENABLED=1"}, "-tags=wasmtime", "./host/...")...)
	if !slices.ContainsFunc(all, func(p listed) bool { return len(p.CgoFiles) > 0 }) {
		t.Fatal("files with cgo are not listed")
	}
	return all
}

// below reports whether path is the package or folder, or lies in it.
func below(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func belowAny(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return below(path, f) })
}

// matches reports whether path is one of the patterns: a package, or with "/..." at its end
// a folder's packages.
func matches(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		folder, all := strings.CutSuffix(pattern, "/...")
		return path == folder || all && below(path, folder)
	})
}

// TestImportRules holds the house together: who may see whom, through however
// many packages in between.
func TestImportRules(t *testing.T) {
	rules := []struct {
		of      string
		but     string   // lies in it and has a rule of its own
		never   []string // these, and what lies in them
		only    []string // of this module nothing but what these match and what lies in it (where not nil)
		because string
	}{
		{of: "wasm", never: []string{"host", "edge", "store"},
			because: "what becomes a module runs in the sandbox, without the house around it"},
		{of: "wasm/abi", only: []string{},
			because: "both sides of the boundary link it"},
		{of: "wasm/route", only: []string{"wasm/abi", "wasm/percent", "wasm/route"},
			because: "a gate links it, and whoever packs a release"},
		{of: "host", but: "host/hosttest", only: []string{"host/...", "wasm/abi"},
			because: "the host runs any module and knows no store"},
		{of: "host/wasmtest", only: []string{"wasm/abi"},
			because: "tests of the rewriter assemble modules with it, and of the host above it"},
		{of: "host/hosttest", only: []string{"host/...", "wasm/..."},
			because: "tests of modules bring a world in memory, and no more of the house"},
		{of: "store/durable", only: []string{},
			because: "everybody who writes a file links it"},
		{of: "wasm/network", only: []string{},
			because: "whoever bounds something by clients links it"},
		{of: "store/grant", only: []string{"store", "wasm/abi", "wasm/typeid"},
			because: "the origin judges every node by it, and it judges by nothing but the key"},
		{of: "store/local", never: []string{"store/central", "edge", "host"},
			because: "a node's state is not the origin's"},
		{of: "store/central", never: []string{"store/local", "edge", "host"},
			because: "a node's state is not the origin's"},
		{of: "edge/wire", only: []string{"edge/wire", "store", "store/ratelimit", "wasm/typeid", "wasm/abi"},
			because: "both sides of the wire link it"},
		{of: "edge/canary", only: []string{"edge/wire", "store", "store/ratelimit", "wasm/typeid", "wasm/abi"},
			because: "node and origin judge by the same rule"},
		{of: "edge/node", never: []string{"edge/origin", "edge/webhook", "store/central"},
			because: "a node is a process of its own"},
		{of: "edge/node/replication", only: []string{"edge/backoff", "edge/logging", "edge/places", "edge/tracing", "edge/wire", "host/...", "store/...", "wasm/..."},
			because: "the node's rooms are given what they need, and see neither the node nor each other"},
		{of: "edge/node/replication/link", only: []string{"edge/logging", "edge/tracing", "edge/wire", "host/...", "store", "store/durable", "store/ratelimit", "wasm/..."},
			because: "rollouts use the link as well, and need no records"},
		{of: "edge/node/replication/leads", only: []string{"edge/backoff", "edge/logging", "edge/node/replication/link", "edge/tracing", "edge/wire", "host/...", "store/...", "wasm/..."},
			because: "leads go from the disk over the link, whatever records the node holds"},
		{of: "edge/node/rollout", only: []string{"edge/admission", "edge/backoff", "edge/canary", "edge/hint", "edge/node/openapi", "edge/release", "edge/wire", "host/...", "store", "store/durable", "store/ratelimit", "wasm/..."},
			because: "the node's rooms are given what they need, and see neither the node nor each other"},
		{of: "edge/origin", never: []string{"edge/node", "edge/webhook", "store/local", "host"},
			because: "the origin runs without modules, and is handed its sender"},
		{of: "edge/origin/admin", never: []string{"edge/console", "edge/origin/broker", "edge/origin/listener", "edge/origin/natsauth"},
			because: "routes are given what they need, and see neither who listens nor who signs"},
		{of: "edge/origin/admin/input", never: []string{"edge/console", "edge/origin", "edge/node", "edge/webhook", "store/central", "host"},
			because: "what callers send is read before anything is looked up"},
		{of: "edge/origin/listener", never: []string{"edge/console", "edge/origin/broker", "edge/origin/natsauth"},
			because: "the listener is handed its console, and lets in by tokens alone"},
		{of: "edge/origin/replication", only: []string{"edge/backoff", "edge/hint", "edge/logging", "edge/origin/registry", "edge/places", "edge/release", "edge/tracing", "edge/wire", "store/...", "wasm/..."},
			because: "it answers nodes, and sees neither operators nor who decides on releases"},
		{of: "edge/origin/replication/spending", only: []string{"edge/backoff", "edge/wire", "store/...", "wasm/..."},
			because: "it merges what nodes report, whoever received it"},
		{of: "edge/origin/rollout", only: []string{"edge/backoff", "edge/canary", "edge/hint", "edge/logging", "edge/origin/registry", "edge/origin/replication/...", "edge/places", "edge/release", "edge/tracing", "edge/wire", "store/...", "wasm/..."},
			because: "it decides by what nodes report, and sees no operators"},
		{of: "edge/origin/registry", only: []string{"edge/hint", "edge/places", "edge/release", "store/...", "wasm/..."},
			because: "whoever serves releases is given it, and it sees none of them"},
		{of: "edge/origin/broker", only: []string{"edge/certificate", "edge/hosts", "edge/logging", "edge/origin/natsauth", "edge/wire", "store", "store/durable", "store/ratelimit", "wasm/abi", "wasm/typeid"},
			because: "it runs NATS, and needs no database"},
		{of: "edge/origin/natsauth", only: []string{"edge/wire", "store", "store/durable", "store/ratelimit", "wasm/abi", "wasm/typeid"},
			because: "signing needs neither the NATS server nor a database"},
		{of: "edge/origin/backup", only: []string{"store/durable"},
			because: "it copies files, whatever is in them"},
		{of: "edge/webhook", never: []string{"edge/node", "edge/origin", "store/local", "host"},
			because: "the sender needs only what it delivers"},
		{of: "edge/connections", only: []string{"edge/logging", "edge/places", "wasm/network"}},
		{of: "edge/places", only: []string{},
			because: "whoever bounds what others bring about links it"},
		{of: "edge/hosts", only: []string{}},
		{of: "edge/gotuning", only: []string{},
			because: "it sets Go's runtime, and knows nothing of what runs"},
		{of: "edge/authoring", only: []string{"edge/admission", "edge/hint", "edge/node/openapi", "edge/release", "host/...", "store/durable", "wasm/..."},
			because: "a module's author has neither a node nor an origin"},
		{of: "edge/output", only: []string{},
			because: "commands hand it what is to be shown"},
		{of: "edge/hint", only: []string{},
			because: "whoever has advice for an error links it"},
		{of: "edge/service", only: []string{"edge/closers", "edge/hint", "store/durable"},
			because: "it runs a node and an origin alike, and knows neither"},
		{of: "edge/dev", only: []string{"edge/adminapi", "edge/backoff", "edge/hint", "edge/release", "store", "store/durable", "wasm/..."},
			because: "what a development installation is made of comes from the admin API, as operators' does"},
		{of: "edge/localwebhook", never: []string{"edge/node", "edge/origin", "edge/adminapi", "store/local", "host"},
			because: "it sends to a developer's own machine, whoever hands it the events"},
		{of: "edge/sandbox", never: []string{"edge/node/replication", "edge/node/rollout", "edge/origin", "edge/adminapi", "store/local", "host"},
			because: "the sandbox has no network but its own port, and no data but in memory"},
		{of: "edge/openapitest", only: []string{},
			because: "tests of node, origin and commands hold exchanges to a document with it"},
		{of: "edge/adminapi", only: []string{"edge/backoff", "wasm/abi"},
			because: "whoever calls the admin API links it"},
		{of: "edge/console", only: []string{"edge/adminapi", "edge/backoff", "edge/logging", "edge/places", "edge/proxies", "wasm/abi"},
			because: "the console is a client of the admin API, and sees no more of the origin"},
		{of: "edge/console/chart", only: []string{},
			because: "it draws numbers, whatever they count"},
		{of: "edge/release", only: []string{"edge/hint", "store/durable", "wasm/abi", "wasm/percent", "wasm/route"},
			because: "nodes, the origin and whoever signs read releases alike"},
		{of: "edge/webhook/signature", only: []string{},
			because: "partners import it"},
	}
	packages := append(listAll(t), list(t, []string{"GOOS=wasip1", "GOARCH=wasm"}, "./wasm/...")...)
	for _, rule := range rules {
		t.Run(rule.of, func(t *testing.T) {
			seen := 0
			for _, p := range packages {
				path := strings.TrimPrefix(p.ImportPath, module)
				if !below(path, rule.of) || rule.but != "" && below(path, rule.but) {
					continue
				}
				seen++
				for _, dep := range p.Deps {
					dep, ours := strings.CutPrefix(dep, module)
					if !ours {
						continue
					}
					if belowAny(dep, rule.never) || rule.only != nil && !matches(dep, rule.only) && !below(dep, rule.of) {
						t.Errorf("%s must not see %s: %s", path, dep, rule.because)
					}
				}
			}
			if seen == 0 {
				t.Errorf("no package %s", rule.of)
			}
		})
	}
}

// TestImportsGoDown: a package of the node, the origin or the store is used by its parent,
// and does not use it. Nothing but the program uses its commands.
func TestImportsGoDown(t *testing.T) {
	for _, p := range list(t, nil, "./...") {
		path := strings.TrimPrefix(p.ImportPath, module)
		for _, parent := range []string{"edge/node", "edge/origin", "edge/webhook", "edge/release", "store/central"} {
			if path != parent && below(path, parent) && !strings.HasSuffix(path, "test") && slices.Contains(p.Deps, module+parent) {
				t.Errorf("%s must not see %s", path, parent)
			}
		}
		if path != "edge" && slices.Contains(p.Deps, module+"edge/command") {
			t.Errorf("%s must not see the commands", path)
		}
	}
}

// TestGuestTestsStayInTheGuest: what is tested natively must not lean on the
// house either.
func TestGuestTestsStayInTheGuest(t *testing.T) {
	for _, p := range list(t, nil, "./wasm/...") {
		for _, imports := range [][]string{p.TestImports, p.XTestImports} {
			for _, dep := range imports {
				if dep, ours := strings.CutPrefix(dep, module); ours && !below(dep, "wasm") {
					t.Errorf("a test of %s imports %s", p.ImportPath, dep)
				}
			}
		}
	}
}

// TestGateStaysSmall: every request passes the gate, and a node holds three times its
// size as machine code. These packages would make it a third larger.
func TestGateStaysSmall(t *testing.T) {
	for _, p := range list(t, []string{"GOOS=wasip1", "GOARCH=wasm"}, "./wasm/modules/gate") {
		for _, large := range []string{"fmt", "os", "time", "encoding/json"} {
			if slices.Contains(p.Deps, large) {
				t.Errorf("the gate has %s in it", large)
			}
		}
	}
}

// TestOnlyCommandsReadFlagsAndOnlyMainExits: every other package is told what to
// do, and returns. The sandbox is a program too, inside a sandbox.
func TestOnlyCommandsReadFlagsAndOnlyMainExits(t *testing.T) {
	exits := map[string]int{}
	for _, p := range listAll(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		program := path == "edge" || path == "wasm/modules/sandbox"
		// Tests of pages ask the testing package's own flags whether pictures are kept.
		reads := path == "edge/command" || path == "wasm/modules/sandbox" || path == "edge/browsertest"
		for _, library := range []string{"flag", "github.com/spf13/cobra", "github.com/spf13/pflag"} {
			if !reads && slices.Contains(p.Imports, library) && !below(path, "scripts") {
				t.Errorf("%s imports %s", path, library)
			}
		}
		for _, name := range p.GoFiles {
			for _, call := range endings(t, filepath.Join(p.Dir, name)) {
				if program && call == "os.Exit" {
					exits[path]++
				} else if !below(path, "scripts") {
					t.Errorf("%s calls %s", filepath.Join(path, name), call)
				}
			}
		}
	}
	for _, path := range []string{"edge", "wasm/modules/sandbox"} {
		if exits[path] != 1 {
			t.Errorf("%s calls os.Exit in %d places, want 1", path, exits[path])
		}
	}
}

// TestOnlyDurableNamesFiles: a file that is renamed into place, or written whole,
// by other means is lost or empty after a power cut, because a sync is forgotten.
func TestOnlyDurableNamesFiles(t *testing.T) {
	may := map[string]string{
		"edge/node/rollout/compilelock.go":  "a mark for other processes of this boot",
		"edge/origin/backup/work.go":        "a mark in the file that is locked: a new file would not be",
		"host/compilecache/compilecache.go": "a cache: what a power cut damages fails its sum, or is not the code it is compared with, and is made anew",
		"host/wazero/cache.go":              "likewise",
	}
	found := make(map[string]bool)
	for _, p := range listAll(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		if !belowAny(path, []string{"edge", "host", "store"}) || path == "store/durable" || strings.HasSuffix(path, "test") {
			continue
		}
		for _, name := range p.GoFiles {
			file := filepath.Join(path, name)
			for _, call := range callsOf(t, filepath.Join(p.Dir, name)) {
				switch call {
				case "os.Rename", "os.WriteFile", "os.Link", "os.Create":
					if may[file] == "" {
						t.Errorf("%s calls %s: use store/durable", file, call)
					}
					found[file] = true
				}
			}
		}
	}
	if len(found) != len(may) {
		t.Errorf("%d files name files by other means, want %d", len(found), len(may))
	}
}

// endings are the calls in a file that end the process.
func endings(t *testing.T, path string) (calls []string) {
	t.Helper()
	for _, name := range callsOf(t, path) {
		if name == "os.Exit" || strings.HasPrefix(name, "log.Fatal") {
			calls = append(calls, name)
		}
	}
	return calls
}

// callsOf lists the calls in a file of functions and methods by a name: "os.Exit".
func callsOf(t *testing.T, path string) (calls []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok {
			calls = append(calls, x.Name+"."+selector.Sel.Name)
		}
		return true
	})
	return calls
}

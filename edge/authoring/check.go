package authoring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"partneredge/edge/admission"
	"partneredge/edge/release"
	"partneredge/host"
	"partneredge/host/prepare"
	"partneredge/wasm"
	"partneredge/wasm/abi"
	"partneredge/wasm/httpfront"
)

// Level says how bad a finding is.
type Level string

// Levels.
const (
	Refused Level = "error"   // a node or `edge release push` would refuse the module
	Warning Level = "warning" // it would run, but is not as it should be
)

// Finding is something that is wrong with a module.
type Finding struct {
	Level Level  `json:"level"`
	Rule  string `json:"rule"` // compiler, sdk, routes, release, size, code, imports, open, warm-up, calls, grants, cases, time
	Text  string `json:"text"`
}

// CheckReport says what a host makes of a module.
type CheckReport struct {
	Name         string    `json:"name"`
	OK           bool      `json:"ok"`            // nothing would be refused
	Size         int64     `json:"size"`          // of the module, bytes
	Image        int       `json:"image"`         // bytes
	OpenMS       int64     `json:"open_ms"`       // to prepare, compile and warm up
	CallUS       float64   `json:"call_us"`       // median of a call, 0 if no case reached the module or its answer to the first changes
	PagesWritten float64   `json:"pages_written"` // memory pages of 4 KiB that a call writes, the mean
	Findings     []Finding `json:"findings"`
}

func (r *CheckReport) add(level Level, rule, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{level, rule, fmt.Sprintf(format, args...)})
	r.OK = r.OK && level != Refused
}

// Check builds the module and says what a host would refuse of it, and what a call
// costs. The error is that of a module which cannot be built.
func (p *Project) Check(ctx context.Context, c Config) (report CheckReport, err error) {
	report = CheckReport{Name: p.Manifest.Name, OK: true, Findings: []Finding{}}
	cases, err := p.readCases()
	if errors.Is(err, os.ErrNotExist) {
		cases, err = new(Cases), nil
		report.add(Warning, "cases", "there is no %s: what the module uses and costs is not known", casesFile)
	}
	if err != nil {
		return report, err
	}
	built, err := p.Build(ctx, c.Out)
	if err != nil {
		return report, err
	}
	report.Size = built.Size
	if built.Warnings != "" {
		report.add(Warning, "compiler", "%s", built.Warnings)
	}
	if err := p.checkSDK(&report); err != nil {
		return report, err
	}
	p.checkManifest(&report)
	if err := c.checkBuilt(built, &report); err != nil || !report.OK {
		return report, err
	}
	start := time.Now()
	h, err := p.openHarness(ctx, built, harnessConfig{c.Cache, host.Limits{CPU: c.CPU, Response: admission.MaxAnswer}, cases.Upstreams, c.Log})
	if err != nil {
		rule := "open"
		if host.ReasonOf(err) != "" {
			rule = "warm-up"
		}
		report.add(Refused, rule, "%v", err)
		return report, nil
	}
	defer func() { err = errors.Join(err, h.close(ctx)) }()
	report.OpenMS, report.Image = time.Since(start).Milliseconds(), h.module.Stats().Image
	h.observe(ctx, cases, &report)
	return report, ctx.Err()
}

// checkSDK finds files of the SDK that are not as this program has them. Those that are not
// there are elsewhere, or not needed: the module compiles.
func (p *Project) checkSDK(report *CheckReport) error {
	files, err := wasm.SDK(p.Language)
	if err != nil {
		return fmt.Errorf("checking the module: %w", err)
	}
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(filepath.Join(p.Dir, filepath.FromSlash(name)))
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		case err != nil:
			return fmt.Errorf("checking the module: %w", err)
		case !bytes.Equal(text, files[name]):
			differ = append(differ, name)
		}
	}
	if len(differ) > 0 {
		report.add(Warning, "sdk", "not as in this program's SDK, which edge module new writes into another folder: %s", strings.Join(differ, ", "))
	}
	return nil
}

// checkManifest finds what a manifest lacks.
func (p *Project) checkManifest(report *CheckReport) {
	m := p.Manifest
	if len(m.Routes) == 0 {
		report.add(Warning, "routes", "the manifest has no routes: nothing leads to the module")
	}
	for _, r := range m.Routes {
		if !slices.ContainsFunc(m.Warmup, func(w host.Warmup) bool { return w.Method == r.Method }) {
			report.add(Warning, "warm-up", "no request of the warm-up has the method %s, as %s has: its calls write more memory than need be", r.Method, r.Path)
		}
	}
}

// checkBuilt finds what no release takes beside the contract's modules, and what no host
// takes, whatever it grants.
func (c Config) checkBuilt(built Built, report *CheckReport) error {
	if built.Size > release.MaxWasm {
		report.add(Refused, "size", "the module has %d bytes; a release takes %d", built.Size, release.MaxWasm)
		return nil
	}
	code, err := os.ReadFile(built.Wasm)
	if err != nil {
		return fmt.Errorf("checking the module: %w", err)
	}
	manifest, err := os.ReadFile(built.Manifest)
	if err != nil {
		return fmt.Errorf("checking the module: %w", err)
	}
	admitted, err := admission.Judge(besideContract(release.Module{Name: built.Name, Wasm: code, Manifest: manifest}))
	if err == nil {
		err = admitted.CheckDials(c.CheckDial)
	}
	if err != nil {
		report.add(Refused, "release", "%v", err)
	}
	prepared, err := prepare.Rewrite(code, prepare.Options{})
	if err != nil {
		report.add(Refused, "code", "%v", err)
		return nil
	}
	for _, im := range prepared.Imports {
		if im.Kind != prepare.KindFunction || im.Module != abi.ImportModule && im.Module != "wasi_snapshot_preview1" {
			report.add(Refused, "imports", "it imports the %s %s.%s; a host offers functions of %s and wasi_snapshot_preview1", im.Kind, im.Module, im.Name, abi.ImportModule)
		}
	}
	return nil
}

// observe runs the cases under a node's own limits, and then measures the first call
// that succeeded, in the state that its own case leaves.
func (h *harness) observe(ctx context.Context, cases *Cases, report *CheckReport) {
	seen := new(firstCall)
	var first Case
	for _, one := range cases.Cases {
		if seen.request == nil {
			first = one
		}
		if problems := h.run(one, seen.around); len(problems) > 0 {
			report.add(Warning, "cases", "case %q fails: %s", one.Name, problems[0])
		}
	}
	for reason, n := range h.module.Stats().Failed {
		report.add(Refused, "calls", "%d calls failed: %s", n, reason)
	}
	for _, what := range h.used.refusals() {
		report.add(Refused, "grants", "the host refused %s", what)
	}
	if len(cases.Cases) > 0 {
		h.findUnused(report)
	}
	if seen.request != nil {
		h.run(first, nil)
		h.measure(ctx, seen, report)
	}
}

// findUnused finds grants that no case makes use of.
func (h *harness) findUnused(report *CheckReport) {
	m := h.project.Manifest
	for _, c := range m.Capabilities {
		if !h.used.has(c) {
			report.add(Warning, "grants", "the capability %s is granted, and no case makes use of it", c)
		}
	}
	for _, address := range m.AllowDial {
		if !h.upstreams.wasAsked(address) {
			report.add(Warning, "grants", "allow_dial has %s, and no case connects to it", address)
		}
	}
}

// firstCall keeps the first request that a module answered with a status below 300.
type firstCall struct {
	request *abi.Request
	status  int
}

type observed struct {
	httpfront.Caller
	first *firstCall
}

func (f *firstCall) around(next httpfront.Caller) httpfront.Caller { return observed{next, f} }

// Call implements httpfront.Caller.
func (o observed) Call(ctx context.Context, req *abi.Request, resp *abi.Response) error {
	err := o.Caller.Call(ctx, req, resp)
	if err == nil && o.first.request == nil && resp.Status < 300 {
		kept := new(abi.Request)
		if kept.Parse(req.Append(nil)) == nil {
			o.first.request, o.first.status = kept, resp.Status
		}
	}
	return err
}

// Bounds of a measurement.
const (
	measuredCalls = 500
	measuredTime  = 2 * time.Second
)

// measure repeats a request. Where it is answered with another status than the first
// time, it reports nothing: that is not the call that was meant.
func (h *harness) measure(ctx context.Context, first *firstCall, report *CheckReport) {
	var resp abi.Response
	var took []time.Duration
	slow := 0
	before := h.module.Stats()
	for start := time.Now(); len(took) < measuredCalls && time.Since(start) < measuredTime && ctx.Err() == nil; {
		began := time.Now()
		if err := h.module.Call(ctx, first.request, &resp); host.ReasonOf(err) == host.CPUDeadline {
			slow++
		} else if err != nil {
			report.add(Refused, "calls", "a call that succeeded once fails when it is repeated: %v", err)
			return
		} else if resp.Status != first.status {
			return
		}
		took = append(took, time.Since(began))
	}
	if len(took) == 0 {
		return
	}
	if slow > 0 {
		level := Warning
		if slow > len(took)/2 {
			level = Refused
		}
		report.add(level, "time", "%d of %d calls computed for longer than a call may", slow, len(took))
	}
	slices.Sort(took)
	report.CallUS = float64(took[len(took)/2].Nanoseconds()) / 1000
	after := h.module.Stats()
	report.PagesWritten = float64(after.Restored-before.Restored) / float64(len(took)) / 4096
	if more := after.Discarded - before.Discarded - uint64(slow); more > 0 {
		report.add(Warning, "time", "%d of %d calls needed a new sandbox: the module grows its memory, or changes a table", more, len(took))
	}
}

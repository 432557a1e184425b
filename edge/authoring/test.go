package authoring

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"partneredge/edge/admission"
	"partneredge/edge/hint"
	"partneredge/host"
)

// Config says how a module is tested, checked or served.
type Config struct {
	// Out is the folder that the module is built into. Default: the folder build of its
	// own.
	Out string
	// Cache is the folder of compiled modules. Default: nothing is kept.
	Cache string
	// CPU is how long a call may compute in Check. Default: as on a node, 50 ms.
	CPU time.Duration
	// CheckDial judges the addresses of the module's allow_dial in Check, and those that it
	// connects to in Serve, as host.Config.CheckDial does. Required in both.
	CheckDial func(netip.AddrPort) error
	// Log gets what the module logs and what goes wrong inside. Required.
	Log *slog.Logger
}

// TestReport is the outcome of a module's cases.
type TestReport struct {
	Name   string       `json:"name"`
	OK     bool         `json:"ok"`
	Cases  []CaseReport `json:"cases"`
	TookMS int64        `json:"took_ms"`

	Warnings string `json:"warnings,omitempty"` // of the compiler
}

// CaseReport is the outcome of one case.
type CaseReport struct {
	Name     string   `json:"name"`
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"` // empty if OK
	TookMS   int64    `json:"took_ms"`
}

// Test builds the module and runs its cases, each from the same time, randomness and
// data. The error is that of a module which cannot be built or opened.
func (p *Project) Test(ctx context.Context, c Config) (report TestReport, err error) {
	start := time.Now()
	cases, err := p.readCases()
	if err != nil {
		return report, err
	}
	built, err := p.Build(ctx, c.Out)
	if err != nil {
		return report, err
	}
	h, err := p.openHarness(ctx, built, harnessConfig{c.Cache, host.Limits{CPU: patience, Response: admission.MaxAnswer}, cases.Upstreams, c.Log})
	if err != nil {
		return report, hint.Add(err, "edge module check says more about what the host refuses")
	}
	defer func() { err = errors.Join(err, h.close(ctx)) }()
	report = TestReport{Name: p.Manifest.Name, OK: true, Warnings: built.Warnings}
	for _, one := range cases.Cases {
		began := time.Now()
		problems := h.run(one, nil)
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		report.OK = report.OK && len(problems) == 0
		report.Cases = append(report.Cases, CaseReport{one.Name, len(problems) == 0, append([]string{}, problems...), time.Since(began).Milliseconds()})
	}
	report.TookMS = time.Since(start).Milliseconds()
	return report, nil
}

package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"partneredge/host/memory"
	"partneredge/wasm/abi"
)

// TestLogsAreBounded: a module that logs line after line while it starts, empty ones as
// well, fills no log. Each line counts beside its text.
func TestLogsAreBounded(t *testing.T) {
	for name, length := range map[string]num{"empty": 0, "long": 200} {
		t.Run(name, func(t *testing.T) {
			const lines = 5000
			start := asm(0x03, 0x40, // loop
				num(8), num(0x100), length, 0x10, 1, // log
				num(0x8000), num(0x8000), 0x28, 2, 0, num(1), 0x6a, 0x36, 2, 0, // ++[0x8000]
				num(0x8000), 0x28, 2, 0, num(lines), 0x49, 0x0d, 0, // again if [0x8000] < lines
				0x0b)
			_, m, log := openHostile(t, assembled(answerWith(asm(num(0x8000), 0x28, 2, 0)), start), memory.Auto, Limits{Sandboxes: 2})
			most := 16 << 10 / (int(length) + 32)
			if n := log.Count("module log"); n == 0 || n > most {
				t.Errorf("%d lines were logged, want 1 to %d of %d", n, most, lines)
			}
			if _, err := ask(m, "/", ""); err != nil {
				t.Error(err)
			}
		})
	}
}

// slowLog calls write for each record.
type slowLog struct {
	slog.Handler
	write func()
}

func (l slowLog) Handle(context.Context, slog.Record) error { l.write(); return nil }

// TestLoggingIsNotComputing holds that a guest is not charged for the time that its log
// takes to be written: its calls are answered though whoever reads the log is slow. Unanswered
// is the one that takes longer than its wall limit.
func TestLoggingIsNotComputing(t *testing.T) {
	const (
		record = 6 * time.Millisecond
		lines  = 40
		cpu    = lines * maxStretch / 2 // a record costs maxStretch where it counts as computing
	)
	loop := func(code []byte) []byte {
		return whenLong(asm(
			num(0x9000), num(0x9100), 0x36, 2, 0, num(0x9004), num(2), 0x36, 2, 0, // a vector of 2 bytes
			num(0x9100), num('x'|'\n'<<8), 0x36, 2, 0,
			0x03, 0x40, code, // loop
			num(0x8000), num(0x8000), 0x28, 2, 0, num(1), 0x6a, 0x36, 2, 0, // ++[0x8000]
			num(0x8000), 0x28, 2, 0, num(lines), 0x49, 0x0d, 0, // again if [0x8000] < lines
			0x0b))
	}
	for name, code := range map[string][]byte{
		"edge.log": asm(num(8), num(0x9100), num(1), 0x10, 1),
		"fd_write": asm(num(1), num(0x9000), num(1), num(0x9010), 0x10, 2, 0x1a),
	} {
		for _, test := range []struct {
			wall time.Duration
			want Reason
		}{{time.Minute, ""}, {lines * record / 2, CapabilityDeadline}} {
			t.Run(fmt.Sprintf("%s in %v", name, test.wall), func(t *testing.T) {
				r, m, log := openHostile(t, assembled(asm(loop(code), answerWith(asm(num(7)))), nil), memory.Auto,
					Limits{CPU: cpu, Wall: test.wall, Sandboxes: 1})
				written := 0
				r.config.Log = slog.New(slowLog{slog.NewTextHandler(log, nil), func() { written++; <-time.After(record) }})
				if _, err := ask(m, "/", long); ReasonOf(err) != test.want {
					t.Errorf("ended with %q, want %q: %v", ReasonOf(err), test.want, err)
				}
				if test.want == "" && written != lines {
					t.Errorf("%d records, want %d", written, lines)
				}
			})
		}
	}
}

// TestRecordsAreTheHostsTime counts the time that each record which a guest brings about
// takes as the host's.
func TestRecordsAreTheHostsTime(t *testing.T) {
	all := &grant{operations: 1<<abi.OpProfile | 1<<abi.OpLockout}
	views := func(err error) *grant {
		return newGrant(Manifest{Capabilities: []abi.Capability{abi.Views}}, Capabilities{Views: failingViews{err: err}})
	}
	for name, test := range map[string]struct {
		grant  *grant
		scopes abi.Scopes
		do     func(c *call)
	}{
		"a line":              {all, 0, func(c *call) { c.log(slog.LevelInfo, []byte("a line")) }},
		"output":              {all, 0, func(c *call) { c.Output([]byte("a line\n")) }},
		"not granted":         {new(grant), 0, func(c *call) { c.op(abi.OpProfile, nil, nil) }},
		"scope lacks":         {all, 0, func(c *call) { c.op(abi.OpProfile, nil, nil) }},
		"too long":            {all, 0, func(c *call) { c.op(abi.OpLockout, make([]byte, maxInput+1), nil) }},
		"malformed":           {views(abi.ErrFrame), abi.AllScopes, func(c *call) { c.op(abi.OpProfile, nil, nil) }},
		"invalid":             {views(ErrInvalid), abi.AllScopes, func(c *call) { c.op(abi.OpProfile, nil, nil) }},
		"a capability failed": {views(errors.New("no disk")), abi.AllScopes, func(c *call) { c.op(abi.OpProfile, nil, nil) }},
	} {
		c, log := idleCall(t, Limits{Log: 100})
		c.m.runtime.config.Log = slog.New(slowLog{slog.NewTextHandler(log, nil), func() { pass(c, time.Hour) }})
		c.grant, c.principal.Scopes = test.grant, test.scopes
		test.do(c)
		if c.inHost < time.Hour || c.inHost > 90*time.Minute {
			t.Errorf("%s: in the host for %v, want an hour", name, c.inHost)
		}
	}
}

// failingViews answer with an error.
type failingViews struct {
	Views
	err error
}

func (v failingViews) AppendProfile(context.Context, []byte, abi.Principal) ([]byte, error) {
	return nil, v.err
}

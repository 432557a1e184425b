package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"partneredge/host/engine"
	"partneredge/host/memory"
	"partneredge/host/threadtime"
	"partneredge/host/wasi"
	"partneredge/wasm/abi"
)

// call is one request under way in a sandbox, which has one call and uses it again.
// The engine hands it to host functions as their context, so that they find it
// without a look-up; it carries no values, and ends with nothing.
type call struct {
	m         *Module
	memory    *memory.Linear
	wasi      wasi.Call
	parent    context.Context
	caps      *capContext // of capabilities; made when first asked for
	grant     *grant
	principal abi.Principal
	now       int64   // the request's, microseconds since the epoch; 0: ask the clock
	warmUp    *warmUp // not nil while an image is made

	wall     time.Duration // when the wall deadline is reached, since the runtime's start
	inHost   time.Duration // spent in capabilities, on the log, or waiting for others
	checked  time.Duration // when last charged, without inHost
	computed time.Duration // spent computing, as charged
	refueled time.Duration // when fuel was last given, without inHost
	yielded  time.Duration // when others were last let run, without inHost
	fuel     int32         // how much was last given

	waited bool               // a stretch of computing was long, perhaps by waiting
	used   threadtime.Reading // when the guest last went on, if waited: with more fuel, or after the host's time

	function engine.Function // that runs; nil outside of it

	paused    bool   // the thread is left to others while a capability waits
	answer    []byte // room for the answers of capabilities
	hostCalls int
	logged    int    // bytes
	line      []byte // of standard output or error, not ended yet
	refused   bool   // more memory was refused
	hindered  bool   // a capability failed or was unavailable
	late      bool   // the wall deadline was reached in a capability, or as its log was written
	stopped   *stop  // what a host function ended the call with
}

func newCall(m *Module, memory *memory.Linear) *call {
	c := &call{m: m, memory: memory}
	c.wasi.Host = c
	return c
}

// Deadline implements context.Context.
func (*call) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (*call) Done() <-chan struct{} { return nil }

// Err implements context.Context.
func (*call) Err() error { return nil }

// Value implements context.Context.
func (*call) Value(any) any { return nil }

// begin readies c for a request.
func (c *call) begin(ctx context.Context, principal abi.Principal, now int64) {
	start := c.m.runtime.elapsed()
	c.parent, c.caps, c.grant = ctx, nil, c.m.grant.Load()
	c.principal, c.now = principal, now
	c.wall, c.wasi.Dialer = start+c.m.limits.Wall, c.m.dialer
	if c.warmUp != nil {
		c.wall, c.wasi.Dialer = start+warmUpLimit, nil
	}
	if t, ok := ctx.Deadline(); ok {
		c.wall = min(c.wall, t.Sub(c.m.runtime.epoch))
	}
	c.inHost, c.checked, c.computed, c.refueled, c.yielded = 0, start, 0, start, start
	c.fuel = minFuel // outside of serve, which sets it anew: for a module's start, say
	c.waited, c.used = false, threadtime.Reading{}
	c.function = nil
	c.hostCalls, c.logged, c.line = 0, 0, c.line[:0]
	c.refused, c.hindered, c.late, c.stopped = false, false, false, nil
}

// end drops everything that belongs to the request.
func (c *call) end() {
	c.flushLine()
	c.wasi.Close()
	if c.caps != nil {
		c.caps.cancel()
	}
	c.parent, c.caps, c.grant, c.principal = nil, nil, nil, abi.Principal{}
}

// stop ends the guest's call. It does not return.
func (c *call) stop(reason Reason, err error) {
	c.stopped = &stop{reason, err}
	panic(c.stopped)
}

// Stop implements wasi.Host.
func (c *call) Stop(err error) {
	var code wasi.ExitCode
	switch {
	case errors.As(err, &code):
		c.stop(Exit, err)
	case errors.Is(err, wasi.ErrSocketBytes):
		c.stop(SocketBytes, nil)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.stop(contextReason(err), nil)
	}
	c.stop(Failed, err)
}

func contextReason(err error) Reason {
	if errors.Is(err, context.DeadlineExceeded) {
		return WallDeadline
	}
	return Canceled
}

// ended returns the reason of a call that goes on beyond its context, which ended with err.
func (c *call) ended(err error) Reason {
	reason := contextReason(err)
	if reason == WallDeadline && c.late {
		return CapabilityDeadline
	}
	return reason
}

// run calls a function of the guest's.
func (c *call) run(f engine.Function, stack []uint64) error {
	c.function = f
	return f.Call(c, stack)
}

// failure returns the error of a call for which the engine returned err.
func (c *call) failure(err error) *Error {
	if e := c.interrupted(err); e != nil {
		return e
	}
	e := c.m.fault(Trap, err)
	if c.stopped != nil {
		e.Reason, e.Err = c.stopped.reason, c.stopped.err
	}
	if c.refused && (e.Reason == Trap || e.Reason == Exit) {
		e.Reason = Memory
	}
	return e
}

// CountCalls implements wasi.Host. A guest may spend all its time in calls to the
// host, in which it spends no fuel, so its deadlines are looked at here too.
func (c *call) CountCalls(n int) {
	c.hostCalls += n
	if c.hostCalls > c.m.limits.HostCalls && c.warmUp == nil {
		c.stop(HostCalls, nil)
	}
	c.checkStack()
	c.check()
}

// logRecord is the cost of a record beside its text, in bytes, so that lines without
// any text have an end too.
const logRecord = 32

// log writes one line of the guest's to the log. What is too much in a warm-up is
// left out.
func (c *call) log(level slog.Level, text []byte) {
	c.logged += len(text) + logRecord
	if c.logged > c.m.limits.Log {
		if c.warmUp == nil {
			c.stop(LogBytes, nil)
		}
		return
	}
	c.writeLog(level, "module log", text)
}

// writeLog writes one record. Whoever reads the log may be slow, which is not the guest's
// computing: its bytes, its calls to the host and its time bound what it has written.
func (c *call) writeLog(level slog.Level, message string, text []byte) {
	if !c.m.runtime.config.Log.Enabled(c, level) {
		return
	}
	c.logging(func() {
		c.m.runtime.config.Log.LogAttrs(c, level, message,
			slog.String("module", c.m.manifest.Name), slog.String("text", string(text)))
	})
}

// logging does what writes to the log, in the host's time.
func (c *call) logging(write func()) {
	start := c.m.runtime.elapsed()
	c.Uncharged(write)
	c.reached(start, c.m.runtime.elapsed())
}

// reached notes if the wall deadline was reached between two times, in which the host did what
// the guest cannot set a time limit to.
func (c *call) reached(start, now time.Duration) { c.late = c.late || start <= c.wall && now > c.wall }

// Output implements wasi.Host: it logs each line.
func (c *call) Output(p []byte) {
	if c.logged+len(c.line)+len(p) > c.m.limits.Log {
		if c.warmUp != nil {
			return
		}
		c.stop(LogBytes, nil)
	}
	for {
		text, rest, ended := bytes.Cut(p, []byte{'\n'})
		c.line = append(c.line, text...)
		if !ended {
			return
		}
		line := c.line
		c.line, p = c.line[:0], rest
		c.log(slog.LevelWarn, line)
	}
}

// flushLine logs the last line of standard output and error if it has not ended.
func (c *call) flushLine() {
	if len(c.line) == 0 {
		return
	}
	if c.logged += len(c.line) + logRecord; c.logged <= c.m.limits.Log {
		c.writeLog(slog.LevelWarn, "module output", c.line)
	}
}

// Random implements wasi.Host. What an image holds is the same for every request;
// what is asked for in a request never is.
func (c *call) Random(p []byte) {
	if c.warmUp != nil {
		c.warmUp.random.Read(p)
	} else if _, err := io.ReadFull(c.m.runtime.config.Random, p); err != nil {
		c.stop(Failed, err)
	}
}

// Clock implements wasi.Host. The time of day stands still during a request.
func (c *call) Clock(realtime bool) uint64 {
	switch {
	case c.warmUp != nil:
		return c.warmUp.clock(realtime)
	case !realtime:
		return uint64(c.m.runtime.elapsed() + afterWarmUp)
	case c.now != 0:
		return uint64(c.now) * 1000
	}
	return uint64(c.m.runtime.config.Clock().UnixNano())
}

// Uncharged implements wasi.Host.
func (c *call) Uncharged(f func()) {
	start, before := c.m.runtime.elapsed(), c.inHost
	f()
	c.inHost = before + c.m.runtime.elapsed() - start
	c.mark()
}

// Sleep implements wasi.Host.
func (c *call) Sleep(d time.Duration) {
	if c.warmUp != nil {
		c.warmUp.elapsed += min(d, afterWarmUp)
		return
	}
	c.Uncharged(func() {
		select {
		case <-time.After(d):
		case <-c.Context().Done():
			c.Stop(c.Context().Err())
		}
	})
}

// Context implements wasi.Host. Capabilities get it as well. No other call uses it
// again, so one who keeps it for too long sees it cancelled, not another's.
func (c *call) Context() context.Context {
	if c.caps == nil {
		c.caps = &capContext{parent: c.parent, deadline: c.m.runtime.epoch.Add(c.wall), call: c}
	}
	return c.caps
}

package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"partneredge/host/memory"
	"partneredge/host/wasi"
	"partneredge/wasm/abi"
)

// call is one request under way in a sandbox. It is the context that the
// engine hands to host functions, so that they reach it without a look-up; it
// carries nothing else. A sandbox has one and uses it again.
type call struct {
	m         *Module
	memory    *memory.Map
	wasi      wasi.Call
	parent    context.Context
	caps      *capContext // what capabilities get; made when first asked for
	grant     *grant
	principal abi.Principal
	now       int64 // the request's, microseconds since the epoch; 0: ask the clock
	warm      *warm // not nil while an image is made

	started   time.Duration // since the runtime's start, as all below
	wall      time.Duration // when the wall deadline is reached
	inHost    time.Duration // spent in capabilities
	checked   time.Duration // when last checked; host time taken off
	computed  time.Duration // spent computing, as charged
	answer    []byte        // room for what capabilities answer
	hostCalls int
	logged    int
	line      []byte // a line of standard output or error not ended yet
	refused   bool   // more memory was refused
	stopped   *stop  // what a host function ended the call with

	// When fuel was last given, and others last let run; host time taken off.
	ticked, yielded time.Duration
	fuel            int32 // how much was given
}

func (*call) Deadline() (time.Time, bool) { return time.Time{}, false }
func (*call) Done() <-chan struct{}       { return nil }
func (*call) Err() error                  { return nil }
func (*call) Value(any) any               { return nil }

func newCall(m *Module, memory *memory.Map) *call {
	c := &call{m: m, memory: memory}
	c.wasi.Host = c
	return c
}

// begin readies c for a request.
func (c *call) begin(ctx context.Context, principal abi.Principal, now int64) {
	c.parent, c.caps = ctx, nil
	c.grant = c.m.grant.Load()
	c.principal, c.now = principal, now
	c.started = c.m.runtime.elapsed()
	c.wall = c.started + c.m.limits.Wall
	c.wasi.Dialer = c.m.dialer
	if c.warm != nil {
		c.wall, c.wasi.Dialer = c.started+warmLimit, nil
	}
	if t, ok := ctx.Deadline(); ok {
		c.wall = min(c.wall, t.Sub(c.m.runtime.epoch))
	}
	c.inHost, c.hostCalls, c.logged, c.line = 0, 0, 0, c.line[:0]
	c.refused, c.stopped = false, nil
	c.checked, c.computed = c.started, 0
	c.ticked, c.yielded, c.fuel = c.started, c.started, firstFuel
}

// end lets go of everything that belongs to the request.
func (c *call) end() {
	c.flushLine()
	c.wasi.Close()
	if c.caps != nil {
		c.caps.cancel()
	}
	c.parent, c.caps, c.grant, c.principal = nil, nil, nil, abi.Principal{}
}

// stop ends the guest's call.
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

// CountCalls implements wasi.Host.
func (c *call) CountCalls(n int) {
	c.hostCalls += n
	if c.hostCalls > c.m.limits.HostCalls && c.warm == nil {
		c.stop(HostCalls, nil)
	}
}

// check ends the call if a deadline has passed, and tells the time.
func (c *call) check() (now time.Duration) {
	now = c.m.runtime.elapsed()
	c.computed += min(now-c.inHost-c.checked, maxStretch)
	c.checked = now - c.inHost
	switch {
	case now > c.wall:
		c.stop(WallDeadline, nil)
	case c.computed > c.m.limits.CPU && c.warm == nil:
		c.stop(CPUDeadline, nil)
	case c.parent.Err() != nil:
		c.stop(contextReason(c.parent.Err()), nil)
	}
	return now
}

func contextReason(err error) Reason {
	if errors.Is(err, context.DeadlineExceeded) {
		return WallDeadline
	}
	return Canceled
}

// fail is the error of a call that the engine returned err for.
func (c *call) fail(err error) *Error {
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

// log writes one line of the guest's to the log.
func (c *call) log(level slog.Level, text []byte) {
	c.logged += len(text) + 1
	if c.logged > c.m.limits.Log && c.warm == nil {
		c.stop(LogBytes, nil)
	}
	if c.m.runtime.log.Enabled(c, level) {
		c.m.runtime.log.LogAttrs(c, level, "module log",
			slog.String("module", c.m.manifest.Name), slog.String("text", string(text)))
	}
}

// Output implements wasi.Host: it logs each line.
func (c *call) Output(p []byte) {
	if c.logged+len(c.line)+len(p) > c.m.limits.Log {
		if c.warm != nil {
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

// flushLine logs what is left of standard output and error.
func (c *call) flushLine() {
	if len(c.line) == 0 {
		return
	}
	line := c.line
	c.line = c.line[:0]
	if c.logged += len(line) + 1; c.logged > c.m.limits.Log {
		return
	}
	c.m.runtime.log.LogAttrs(c, slog.LevelWarn, "module output",
		slog.String("module", c.m.manifest.Name), slog.String("text", string(line)))
}

// capContext is the context of a request's capabilities: the caller's, ended
// at the call's wall deadline. The timer is only made for one who waits.
type capContext struct {
	parent   context.Context
	deadline time.Time

	mu    sync.Mutex
	inner context.Context // nil until someone waits
	stop  context.CancelFunc
	ended bool
}

// Random implements wasi.Host. What an image holds is the same for every request;
// what is asked for in a request never is.
func (c *call) Random(p []byte) {
	if c.warm != nil {
		c.warm.random.Read(p)
	} else if _, err := io.ReadFull(c.m.runtime.random, p); err != nil {
		c.stop(Failed, err)
	}
}

// Clock implements wasi.Host. The time of day stands still during a request.
func (c *call) Clock(realtime bool) uint64 {
	switch {
	case c.warm != nil:
		return c.warm.clock(realtime)
	case !realtime:
		return uint64(c.m.runtime.elapsed() + afterWarm)
	case c.now != 0:
		return uint64(c.now) * 1000
	}
	return uint64(c.m.runtime.clock().UnixNano())
}

// Uncharged implements wasi.Host.
func (c *call) Uncharged(f func()) {
	start, before := c.m.runtime.elapsed(), c.inHost
	f()
	c.inHost = before + c.m.runtime.elapsed() - start
}

// Sleep implements wasi.Host.
func (c *call) Sleep(d time.Duration) {
	if c.warm != nil {
		c.warm.elapsed += min(d, afterWarm)
		return
	}
	c.Uncharged(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.Context().Done():
			c.Stop(c.Context().Err())
		}
	})
}

// Context is what capabilities get. It is never used again by another call,
// so one who keeps it too long sees it cancelled, not another's.
func (c *call) Context() context.Context {
	if c.caps == nil {
		c.caps = &capContext{parent: c.parent, deadline: c.m.runtime.epoch.Add(c.wall)}
	}
	return c.caps
}

func (c *capContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *capContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.stop = context.WithDeadline(c.parent, c.deadline)
		if c.ended {
			c.stop()
		}
	}
	return c.inner.Done()
}

func (c *capContext) Err() error {
	c.mu.Lock()
	inner, ended := c.inner, c.ended
	c.mu.Unlock()
	switch {
	case inner != nil:
		return inner.Err()
	case c.parent.Err() != nil:
		return c.parent.Err()
	case ended:
		return context.Canceled
	case time.Now().After(c.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

func (c *capContext) Value(key any) any {
	c.mu.Lock()
	inner := c.inner
	c.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return c.parent.Value(key)
}

func (c *capContext) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.stop != nil {
		c.stop()
	}
}

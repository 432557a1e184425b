package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"partneredge/host/engine"
	"partneredge/host/memory"
	"partneredge/host/prepare"
	"partneredge/host/wasi"
	"partneredge/wasm/abi"
)

// idleCall returns a call of a module without code, which has begun, and its log.
func idleCall(t *testing.T, limits Limits) (*call, *LogBuffer) {
	t.Helper()
	log := &LogBuffer{}
	r := &Runtime{epoch: time.Now(), config: Config{Log: slog.New(slog.NewTextHandler(log, nil))}}
	c := newCall(&Module{runtime: r, limits: limits, manifest: Manifest{Name: "idle"}}, nil)
	c.begin(context.Background(), abi.Principal{}, 0)
	return c, log
}

// pass lets time pass for a call.
func pass(c *call, d time.Duration) { c.m.runtime.epoch = c.m.runtime.epoch.Add(-d) }

// stopped returns why f ended its call, "" when it did not.
func stopped(f func()) (reason Reason) {
	defer func() {
		if s, ok := recover().(*stop); ok {
			reason = s.reason
		}
	}()
	f()
	return ""
}

// TestDefaultLimits names every default. A field that is set, however low, stays.
func TestDefaultLimits(t *testing.T) {
	defaults := Limits{CPU: 50 * time.Millisecond, Wall: 10 * time.Second, Memory: 64 << 20, Response: 1 << 20, HostCalls: 1000,
		Log: 16 << 10, Sockets: 8, SocketBytes: 4 << 20, Sandboxes: 64, Wait: 2 * time.Second}
	if got := (Limits{}).withDefaults(); got != defaults {
		t.Errorf("defaults %+v", got)
	}
	for _, n := range []int{1, -1} {
		d := time.Duration(n)
		set := Limits{CPU: d, Wall: d, Memory: n, Response: n, HostCalls: n, Log: n, Sockets: n, SocketBytes: n, Sandboxes: n, Wait: d}
		want := set
		if n < 0 {
			want = defaults
			want.CPU = d // for ever
		}
		if got := set.withDefaults(); got != want {
			t.Errorf("each %d: %+v", n, got)
		}
	}
}

// TestNextFuel has the last fuel last too long, too short, and just as it should.
func TestNextFuel(t *testing.T) {
	for _, test := range []struct {
		last int32
		took time.Duration
		want int32
	}{
		{10_000, fuelInterval, 10_000},
		{10_000, 2 * fuelInterval, 5000},
		{10_000, fuelInterval / 2, 20_000},
		{5_000, fuelInterval / 10, 20_000}, // four times as much at most
		{2_000, 0, 8_000},
		{3_000, -time.Second, 12_000},
		{maxFuel, fuelInterval / 2, maxFuel},
		{20_000, time.Second, minFuel},
	} {
		if got := nextFuel(test.last, test.took); got != test.want {
			t.Errorf("%d lasted %v: next %d, want %d", test.last, test.took, got, test.want)
		}
	}
}

// TestMostFuel gives a guest with a large memory a quarter.
func TestMostFuel(t *testing.T) {
	m, err := memory.New(2*largeMemory, memory.Copy)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	c := newCall(nil, m)
	for _, test := range []struct {
		size uint64
		want int32
	}{{largeMemory, maxFuel}, {largeMemory + prepare.PageSize, maxFuel / 4}} {
		if m.Resize(test.size); m.Len() != int(test.size) {
			t.Fatalf("memory of %d bytes, want %d", m.Len(), test.size)
		}
		if got := c.mostFuel(); got != test.want {
			t.Errorf("%d bytes: %d, want %d", test.size, got, test.want)
		}
	}
}

// TestRefuel gives little fuel where the last lasted long, and looks at time anew from
// there on.
func TestRefuel(t *testing.T) {
	m, err := memory.New(prepare.PageSize, memory.Copy)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	c, _ := idleCall(t, Limits{CPU: time.Hour, Wall: 10 * time.Hour})
	c.memory, c.fuel = m, maxFuel
	c.m.runtime.yielder.processors = 1
	pass(c, time.Minute)
	var stack [1]uint64
	if refuel(c, nil, stack[:]); stack[0] != minFuel || c.fuel != minFuel {
		t.Errorf("after a minute there is fuel for %d, %d", stack[0], c.fuel)
	}
	if now := c.m.runtime.elapsed(); now-c.yielded > now/2 || now-c.refueled > now/2 {
		t.Errorf("at %v: others ran last at %v, fuel was given at %v", now, c.yielded, c.refueled)
	}
	for tries := 0; c.fuel == minFuel; tries++ { // soon the thread is not interrupted for once
		if refuel(c, nil, stack[:]); tries > 1_000_000 {
			t.Fatal("it never gets more")
		}
	}
	pass(c, 10*time.Hour)
	if reason := stopped(func() { refuel(c, nil, stack[:]) }); reason != WallDeadline {
		t.Errorf("beyond its deadline: ended by %q", reason)
	}
}

// TestOverdue looks at a call just at its limits, and just beyond.
func TestOverdue(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	const cpu = 50 * time.Millisecond
	for name, test := range map[string]struct {
		parent        context.Context
		cpu, computed time.Duration
		now           time.Duration // of a second
		warmUp        *warmUp
		want          Reason
	}{
		"at the limits":         {context.Background(), cpu, cpu, time.Second, nil, ""},
		"computed too long":     {context.Background(), cpu, cpu + 1, time.Second, nil, CPUDeadline},
		"took too long":         {context.Background(), cpu, cpu + 1, time.Second + 1, nil, WallDeadline},
		"may compute for ever":  {context.Background(), -1, time.Hour, time.Second, nil, ""},
		"computes in a warm-up": {context.Background(), cpu, time.Hour, time.Second, new(warmUp), ""},
		"cancelled":             {canceled, cpu, time.Hour, time.Hour, nil, Canceled},
		"the caller's deadline": {late, cpu, 0, 0, nil, WallDeadline},
	} {
		c, _ := idleCall(t, Limits{CPU: test.cpu})
		c.parent, c.computed, c.wall, c.warmUp = test.parent, test.computed, time.Second, test.warmUp
		if got := c.overdue(test.now); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestTimeLeft is the lesser of what a call may compute and of what it may take.
func TestTimeLeft(t *testing.T) {
	for name, test := range map[string]struct {
		limits      Limits
		passes      time.Duration
		least, most time.Duration
	}{
		"computing": {Limits{CPU: time.Hour, Wall: 10 * time.Hour}, 0, 30 * time.Minute, time.Hour},
		"the clock": {Limits{CPU: 9 * time.Hour, Wall: 2 * time.Hour}, time.Hour, 30 * time.Minute, time.Hour},
		"for ever":  {Limits{CPU: -1, Wall: 2 * time.Hour}, time.Hour, 30 * time.Minute, time.Hour},
		"none":      {Limits{CPU: time.Hour, Wall: time.Hour}, 2 * time.Hour, 0, 0},
	} {
		c, _ := idleCall(t, test.limits)
		pass(c, test.passes)
		if left := c.TimeLeft(); left < test.least || left > test.most {
			t.Errorf("%s: %v left, want %v to %v", name, left, test.least, test.most)
		}
	}
	c, _ := idleCall(t, Limits{CPU: time.Hour, Wall: 10 * time.Hour})
	if c.computed = 20 * time.Minute; c.TimeLeft() > 40*time.Minute {
		t.Error("what was computed before is left as well")
	}
	if c.warmUp = new(warmUp); c.TimeLeft() < 2*time.Hour {
		t.Error("a warm-up may not compute for as long as it takes")
	}
}

// TestInterrupted says why a call ended that its engine interrupted.
func TestInterrupted(t *testing.T) {
	c, _ := idleCall(t, Limits{CPU: time.Hour, Wall: time.Hour})
	if err := c.interrupted(errors.New("unreachable")); err != nil {
		t.Errorf("not interrupted: %v", err)
	}
	interrupted := fmt.Errorf("call: %w", engine.ErrInterrupted)
	if err := c.interrupted(interrupted); ReasonOf(err) != CPUDeadline {
		t.Errorf("before its deadlines: %v", err)
	}
	pass(c, 2*time.Hour)
	if err := c.interrupted(interrupted); ReasonOf(err) != WallDeadline {
		t.Errorf("after its deadline: %v", err)
	}
}

// TestCallBeginsAnew uses a call that the last request left in disorder.
func TestCallBeginsAnew(t *testing.T) {
	c, _ := idleCall(t, Limits{Wall: time.Hour})
	c.inHost, c.checked, c.computed, c.refueled, c.yielded, c.fuel = 1, 2, 3, 4, 5, 6
	c.waited, c.hostCalls, c.logged, c.line, c.refused, c.stopped = true, 7, 8, []byte("left over"), true, &stop{}
	c.caps, c.now, c.function = new(capContext), 9, engine.Function(nil)
	pass(c, time.Minute)
	c.begin(context.Background(), abi.Principal{}, 11)
	start := c.wall - time.Hour
	if c.checked != start || c.refueled != start || c.yielded != start || start < time.Minute {
		t.Errorf("began at %v, was charged at %v, got fuel at %v, yielded at %v", start, c.checked, c.refueled, c.yielded)
	}
	if c.inHost != 0 || c.computed != 0 || c.fuel != minFuel || c.waited || c.hostCalls != 0 || c.logged != 0 ||
		len(c.line) != 0 || c.refused || c.stopped != nil || c.caps != nil || c.now != 11 {
		t.Errorf("it goes on as before: %+v", c)
	}
	c.warmUp = new(warmUp)
	if c.begin(context.Background(), abi.Principal{}, 0); c.wall-c.checked != warmUpLimit || c.wasi.Dialer != nil {
		t.Errorf("a step of a warm-up may take %v, and dial: %t", c.wall-c.checked, c.wasi.Dialer != nil)
	}
	c.end()
	if c.parent != nil || c.grant != nil || c.principal.Scopes != 0 {
		t.Error("it keeps what belongs to the request")
	}
}

// TestFailureNamesTheCause has a guest fail after more memory was refused, and by
// itself.
func TestFailureNamesTheCause(t *testing.T) {
	for _, test := range []struct {
		refused bool
		stopped *stop
		want    Reason
	}{
		{false, nil, Trap},
		{true, nil, Memory},
		{false, &stop{Exit, nil}, Exit},
		{true, &stop{Exit, nil}, Memory},
		{true, &stop{HostCalls, nil}, HostCalls},
	} {
		c, _ := idleCall(t, Limits{Wall: time.Hour})
		c.refused, c.stopped = test.refused, test.stopped
		if err := c.failure(errors.New("unreachable")); err.Reason != test.want {
			t.Errorf("refused memory %t, stopped %v: %v, want %s", test.refused, test.stopped, err, test.want)
		}
	}
}

// TestStopNamesTheCause has WASI end a call for each reason.
func TestStopNamesTheCause(t *testing.T) {
	for _, test := range []struct {
		err  error
		want Reason
	}{
		{wasi.ExitCode(3), Exit}, {wasi.ErrSocketBytes, SocketBytes}, {context.Canceled, Canceled},
		{context.DeadlineExceeded, WallDeadline}, {errors.New("no disk"), Failed},
	} {
		c, _ := idleCall(t, Limits{Wall: time.Hour})
		if got := stopped(func() { c.Stop(fmt.Errorf("write: %w", test.err)) }); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

// TestHostCallsAreCounted ends a call with the first call to the host beyond the limit.
func TestHostCallsAreCounted(t *testing.T) {
	limits := Limits{CPU: time.Hour, Wall: time.Hour, HostCalls: 5}
	c, _ := idleCall(t, limits)
	if got := stopped(func() { c.CountCalls(2); c.CountCalls(3) }); got != "" {
		t.Errorf("as many as may be: ended by %q", got)
	}
	if got := stopped(func() { c.CountCalls(1) }); got != HostCalls {
		t.Errorf("one more: ended by %q", got)
	}
	c.warmUp = new(warmUp)
	if got := stopped(func() { c.CountCalls(1) }); got != "" {
		t.Errorf("in a warm-up: ended by %q", got)
	}
	pass(c, 2*time.Hour)
	if got := stopped(func() { c.CountCalls(1) }); got != WallDeadline {
		t.Errorf("after its deadline: ended by %q", got)
	}
}

// stackOf is a function of a guest whose stack has so many bytes.
type stackOf struct {
	engine.Function
	size int
}

func (s stackOf) StackSize() int { return s.size }

// TestStackIsBoundedInHostCalls ends a guest with a large stack that calls the host, and
// so may spend no fuel.
func TestStackIsBoundedInHostCalls(t *testing.T) {
	c, _ := idleCall(t, Limits{CPU: time.Hour, Wall: time.Hour, HostCalls: 5})
	c.function = stackOf{size: maxStack}
	if got := stopped(func() { c.CountCalls(1) }); got != "" {
		t.Errorf("as large as may be: ended by %q", got)
	}
	c.function = stackOf{size: maxStack + 1}
	if got := stopped(func() { c.CountCalls(1) }); got != Trap {
		t.Errorf("a byte more: ended by %q", got)
	}
}

// TestLogIsBounded logs as much as a call may, and a byte more.
func TestLogIsBounded(t *testing.T) {
	const room = 3
	full := func() (*call, *LogBuffer) { return idleCall(t, Limits{Log: room + logRecord}) }
	for name, write := range map[string]func(c *call, text string){
		"a record": func(c *call, text string) { c.log(slog.LevelWarn, []byte(text)) },
		"a line":   func(c *call, text string) { c.Output([]byte(text + "\n")) },
	} {
		c, log := full()
		if got := stopped(func() { write(c, "abc") }); got != "" || log.Count("text=abc") != 1 {
			t.Errorf("%s that fits: ended by %q: %s", name, got, log)
		}
		if got := stopped(func() { write(c, "") }); got != LogBytes {
			t.Errorf("%s without text, beyond: ended by %q", name, got)
		}
		c, log = full()
		if got := stopped(func() { write(c, "abcd") }); got != LogBytes || log.Count("abcd") != 0 {
			t.Errorf("%s too long: ended by %q: %s", name, got, log)
		}
		c, log = full()
		c.warmUp = new(warmUp)
		if got := stopped(func() { write(c, "abcd") }); got != "" || log.Count("abcd") != 0 {
			t.Errorf("%s too long in a warm-up: ended by %q: %s", name, got, log)
		}
	}

	c, log := full()
	if c.Output([]byte("ab")); log.Count("text=") != 0 {
		t.Errorf("a line that has not ended is logged: %s", log)
	}
	c.Output([]byte("c"))
	if c.flushLine(); log.Count("text=abc") != 1 {
		t.Errorf("the last line, not ended: %s", log)
	}
	c, log = full()
	c.line = []byte("abcd")
	if c.flushLine(); log.Count("text=") != 0 {
		t.Errorf("a last line that is too long is logged: %s", log)
	}
	c, _ = idleCall(t, Limits{Log: 100})
	if got := stopped(func() { c.Output(bytes.Repeat([]byte("x"), 60)); c.Output(bytes.Repeat([]byte("x"), 40)) }); got != "" {
		t.Errorf("a line as long as the limit: ended by %q", got)
	}
	if got := stopped(func() { c.Output([]byte("x")) }); got != LogBytes {
		t.Errorf("a byte more, not ended: ended by %q", got)
	}
}

// TestUnchargedTimeIsTheHosts counts the time once, also where one wait is within
// another.
func TestUnchargedTimeIsTheHosts(t *testing.T) {
	c, _ := idleCall(t, Limits{CPU: time.Hour, Wall: 100 * time.Hour})
	c.inHost = time.Hour
	c.Uncharged(func() {
		pass(c, time.Hour)
		c.Uncharged(func() { pass(c, time.Hour) })
	})
	if c.inHost < 3*time.Hour || c.inHost > 3*time.Hour+30*time.Minute {
		t.Errorf("in the host for %v, want three hours", c.inHost)
	}
}

// TestClocks reads the clocks that a guest has.
func TestClocks(t *testing.T) {
	c, _ := idleCall(t, Limits{})
	c.m.runtime.config.Clock = func() time.Time { return time.Unix(7, 8) }
	if got := c.Clock(true); got != 7_000_000_008 {
		t.Errorf("the time is %d", got)
	}
	if c.now = 5; c.Clock(true) != 5000 {
		t.Errorf("the request's time is %d", c.Clock(true))
	}
	if got := time.Duration(c.Clock(false)); got < afterWarmUp || got > afterWarmUp+time.Hour {
		t.Errorf("the monotonic clock is at %v", got)
	}
}

// TestMaxMemoryIsWholePages rounds the limit of memory down to whole pages.
func TestMaxMemoryIsWholePages(t *testing.T) {
	const page = prepare.PageSize
	for limit, want := range map[int]int{page - 1: 0, page: page, 3*page + 1: 3 * page, 4*page - 1: 3 * page, 4 * page: 4 * page} {
		m := &Module{limits: Limits{Memory: limit}}
		if got := m.maxMemory(); got != want {
			t.Errorf("%d of %d bytes, want %d", got, limit, want)
		}
	}
}

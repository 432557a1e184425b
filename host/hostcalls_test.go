package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"partneredge/host/engine"
	"partneredge/host/memory"
	"partneredge/wasm/abi"
)

// TestSliceIsInTheGuest takes the last byte of a guest's memory, and the next.
func TestSliceIsInTheGuest(t *testing.T) {
	guest := make([]byte, 100)
	for _, test := range []struct {
		at, n uint64
		want  int // -1: outside
	}{{0, 100, 100}, {99, 1, 1}, {100, 0, 0}, {99, 2, -1}, {101, 0, -1}, {math.MaxUint32, math.MaxUint32, -1}, {1<<32 + 90, 10, 10}} {
		c, _ := idleCall(t, Limits{})
		got := -1
		if reason := stopped(func() { got = len(c.slice(guest, test.at, test.n)) }); got != test.want || (reason == BadPointer) != (test.want < 0) {
			t.Errorf("%d bytes at %d: %d, %q, want %d", test.n, test.at, got, reason, test.want)
		}
	}
}

// TestResultFitsItsRoom copies an answer that just fits, and asks for room for one
// that does not.
func TestResultFitsItsRoom(t *testing.T) {
	out := make([]byte, 3)
	if got := result([]byte("abc"), out); got != 3 || string(out) != "abc" {
		t.Errorf("%d, %q", got, out)
	}
	if got := result([]byte("abcd"), out); got != int32(abi.CodeShort)-4 || string(out) != "abc" {
		t.Errorf("%d, %q", got, out)
	}
	if got := short(math.MaxInt); got != int32(abi.CodeShort)-math.MaxInt32/2 || got > 0 {
		t.Errorf("room for anything: %d", got)
	}
}

// TestRoomIsThatOfTheAnswer asks of a guest no more and no less room than the answer of
// an operation takes that must not be done twice.
func TestRoomIsThatOfTheAnswer(t *testing.T) {
	long := strings.Repeat("x", 64)
	for op, answer := range map[abi.Op][]byte{
		abi.OpLockout:       appendDuration(nil, time.Hour),
		abi.OpFailure:       appendDuration(nil, time.Hour),
		abi.OpTake:          new(abi.Bucket).Append(nil),
		abi.OpSubscribe:     []byte(long),
		abi.OpSubscribeOnce: (&abi.Subscribed{Reason: long, ID: long, Secret: long}).Append(nil),
		abi.OpRevoke:        {1},
		abi.OpLeadOnce:      (&abi.Kept{ID: long}).Append(nil),
		abi.OpProfile:       nil,
		abi.OpLead:          nil,
	} {
		if got := room(op); got != len(answer) {
			t.Errorf("operation %d: room for %d bytes, want %d", op, got, len(answer))
		}
	}
}

// TestOperationsThatFit does an operation whose answer has just enough room, and not
// with a byte less.
func TestOperationsThatFit(t *testing.T) {
	c, _ := idleCall(t, Limits{})
	c.grant = newGrant(Manifest{Capabilities: []abi.Capability{abi.Lockouts}}, Capabilities{Lockouts: lockouts{}})
	if got := c.op(abi.OpLockout, nil, make([]byte, 8)); got != 8 {
		t.Errorf("room for 8 bytes: %d, want 8", got)
	}
	if got, want := c.op(abi.OpLockout, nil, make([]byte, 7)), short(8); got != want {
		t.Errorf("room for 7 bytes: %d, want %d", got, want)
	}
}

// roomyViews answers in room for size bytes, and keeps how much room it was given.
type roomyViews struct {
	Views
	size, got int
}

func (v *roomyViews) AppendProfile(_ context.Context, dst []byte, _ abi.Principal) ([]byte, error) {
	v.got = cap(dst)
	return make([]byte, 1, v.size), nil
}

// TestRoomForAnswersIsKept gives a capability the room of the answer before, but keeps
// none that is large.
func TestRoomForAnswersIsKept(t *testing.T) {
	views := &roomyViews{}
	c, _ := idleCall(t, Limits{})
	c.grant = newGrant(Manifest{Capabilities: []abi.Capability{abi.Views}}, Capabilities{Views: views})
	c.principal.Scopes = abi.AllScopes
	want := cap(c.answer)
	for _, size := range []int{maxAnswerRoom / 2, maxAnswerRoom, maxAnswerRoom + 1, 1} {
		views.size = size
		if n := c.op(abi.OpProfile, nil, make([]byte, 1)); n != 1 || views.got != want {
			t.Errorf("answer of %d bytes, with room for %d bytes, want %d", n, views.got, want)
		}
		if size <= maxAnswerRoom {
			want = size
		}
	}
}

// TestMalformedOperations refuses what is cut short, and an operation that is not known,
// before any capability is asked.
func TestMalformedOperations(t *testing.T) {
	for op, in := range map[abi.Op]string{
		abi.OpTake: "abc", abi.OpInsights: "of 11 bytes", abi.OpFirings: "of  13  bytes",
		abi.OpSubscribe: "", abi.OpSubscribeOnce: "", abi.OpLeadOnce: "", 63: "",
	} {
		c, _ := idleCall(t, Limits{})
		c.grant = &grant{}
		if answer, err := c.perform(t.Context(), op, []byte(in), nil); !errors.Is(err, abi.ErrFrame) {
			t.Errorf("operation %d: %q, %v", op, answer, err)
		}
	}
}

// revocations answers every revocation alike.
type revocations struct {
	Subscriptions
	already bool
	err     error
}

func (r revocations) Revoke(context.Context, abi.Principal, string) (bool, error) {
	return r.already, r.err
}

// TestRevokeAnswers: a guest learns whether the subscription had been revoked before.
func TestRevokeAnswers(t *testing.T) {
	for _, test := range []struct {
		revocations
		want byte
	}{
		{revocations{already: false}, 0}, {revocations{already: true}, 1},
		{revocations{already: false, err: ErrUnavailable}, 0}, {revocations{already: true, err: ErrUnavailable}, 1},
	} {
		c, _ := idleCall(t, Limits{})
		c.grant = &grant{caps: Capabilities{Subscriptions: test.revocations}}
		got, err := c.perform(t.Context(), abi.OpRevoke, []byte("whs_a"), nil)
		if !errors.Is(err, test.err) || test.err == nil && !bytes.Equal(got, []byte{test.want}) {
			t.Errorf("%+v: %v, %v", test.revocations, got, err)
		}
	}
}

// TestMalformedFrames: frames that cannot be read are logged once for each operation.
func TestMalformedFrames(t *testing.T) {
	c, log := idleCall(t, Limits{})
	for _, op := range []abi.Op{abi.OpLead, abi.OpProfile, abi.OpLead} {
		c.code(op, abi.ErrFrame)
	}
	if log.Count("malformed") != 2 || log.Count("op=10") != 1 || log.Count("op=5") != 1 {
		t.Errorf("the log says %s", log)
	}
}

// TestInvalidIsLoggedOnce: a guest that asks for what cannot be, as often as it may, fills
// no log.
func TestInvalidIsLoggedOnce(t *testing.T) {
	c, log := idleCall(t, Limits{})
	for range 1000 {
		for _, op := range []abi.Op{abi.OpLead, abi.OpProfile} {
			if got := c.code(op, fmt.Errorf("no\xffname: %w", ErrInvalid)); got != abi.CodeInvalid {
				t.Fatalf("code %d, want %d", got, abi.CodeInvalid)
			}
		}
	}
	if log.Count("\n") != 2 || log.Count("level=WARN") != 2 || log.Count("op=10") != 1 || log.Count("op=5") != 1 || log.Count("no?name: invalid") != 2 {
		t.Errorf("the log has %d lines: %.1000s", log.Count("\n"), log)
	}
	if c.hindered {
		t.Error("the module's own fault counts as the capability's")
	}
}

// waitingViews wait until their context ends, and answer with the error that is made of its.
type waitingViews struct {
	Views
	began chan<- struct{}
	wrap  func(error) error
}

func (v waitingViews) AppendProfile(ctx context.Context, _ []byte, _ abi.Principal) ([]byte, error) {
	close(v.began)
	<-ctx.Done()
	return nil, v.wrap(ctx.Err())
}

// TestEndedCallIsNoFailure: where the client hung up or time is over, what a capability
// returns for it is not logged as its failure; any other error is.
func TestEndedCallIsNoFailure(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("wait for a lock: %w", err) }
	for name, test := range map[string]struct {
		cancel bool // or else the call takes too long
		wrap   func(error) error
		want   abi.Code
		ends   Reason
		logged int
	}{
		"the client hung up":                 {true, wrapped, abi.CodeUnavailable, Canceled, 0},
		"time is over":                       {false, wrapped, abi.CodeFailed, WallDeadline, 1},
		"a failure meanwhile":                {true, func(error) error { return errors.New("no disk") }, abi.CodeFailed, Canceled, 1},
		"a time limit of the capability":     {true, func(error) error { return wrapped(context.DeadlineExceeded) }, abi.CodeFailed, Canceled, 1},
		"a wait that the capability gave up": {false, func(error) error { return wrapped(context.Canceled) }, abi.CodeFailed, WallDeadline, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, log := idleCall(t, Limits{CPU: time.Hour, Wall: time.Hour, HostCalls: 1})
			parent, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.parent = parent
			began := make(chan struct{})
			if test.cancel {
				go func() { <-began; cancel() }()
			} else {
				pass(c, 2*time.Hour)
			}
			c.grant = newGrant(Manifest{Capabilities: []abi.Capability{abi.Views}}, Capabilities{Views: waitingViews{began: began, wrap: test.wrap}})
			c.principal.Scopes = abi.AllScopes
			if got := c.op(abi.OpProfile, nil, nil); got != int32(test.want) || log.Count("module capability failed") != test.logged {
				t.Errorf("code %d, want %d; the log says %q", got, test.want, log)
			}
			if !c.hindered {
				t.Error("the module was not hindered")
			}
			if got := stopped(func() { c.CountCalls(1) }); got != test.ends {
				t.Errorf("the call then ends with %q, want %q", got, test.ends)
			}
		})
	}
}

// viewsDuring are Views that do something while a profile is asked for.
type viewsDuring struct {
	Views
	do func()
}

func (v viewsDuring) AppendProfile(context.Context, []byte, abi.Principal) ([]byte, error) {
	v.do()
	return nil, ErrUnavailable
}

// TestTimeThatEndsInACapability: a call whose time was over in a capability speaks against
// the node, not against its module, unless the module had used the time up before.
func TestTimeThatEndsInACapability(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	const over, some = 2 * time.Hour, time.Minute
	for name, test := range map[string]struct {
		logs                  bool          // the log takes the time, not the capability
		before, during, after time.Duration // of an hour
		parent                context.Context
		want                  Reason
		outside               bool
	}{
		"in the capability":              {false, some, over, some, nil, CapabilityDeadline, true},
		"before it":                      {false, over, some, some, nil, WallDeadline, false},
		"after it":                       {false, some, some, over, nil, WallDeadline, false},
		"the caller's deadline":          {false, some, over, some, late, CapabilityDeadline, true},
		"the client hung up in it":       {false, some, over, some, canceled, Canceled, true},
		"the capability answers in time": {false, some, some, some, nil, "", false},
		"in the log":                     {true, some, over, some, nil, CapabilityDeadline, true},
	} {
		c, _ := idleCall(t, Limits{CPU: 10 * time.Hour, Wall: time.Hour, HostCalls: 10})
		c.grant = newGrant(Manifest{Capabilities: []abi.Capability{abi.Views}}, Capabilities{Views: viewsDuring{do: func() {
			pass(c, test.during)
			if test.parent != nil {
				c.parent = test.parent
			}
		}}})
		c.principal.Scopes = abi.AllScopes
		pass(c, test.before)
		if test.logs {
			c.m.runtime.config.Log = slog.New(slowLog{slog.NewTextHandler(io.Discard, nil), func() { pass(c, test.during) }})
			c.writeLog(slog.LevelError, "module", []byte("text"))
		} else {
			c.op(abi.OpProfile, nil, nil)
		}
		pass(c, test.after)
		if got := stopped(func() { c.CountCalls(1) }); got != test.want || got.Outside() != test.outside {
			t.Errorf("%s: %q, want %q; it is outside the module: %t", name, got, test.want, got.Outside())
		}
		if got := ReasonOf(c.interrupted(engine.ErrInterrupted)); test.want != "" && got != test.want {
			t.Errorf("%s: its engine ends it by %q, want %q", name, got, test.want)
		}
		c.begin(context.Background(), abi.Principal{}, 0)
		pass(c, over)
		if got := stopped(func() { c.CountCalls(1) }); got != WallDeadline {
			t.Errorf("%s: the next call ends with %q, want %q", name, got, WallDeadline)
		}
	}
}

// TestCallThatEndsIsReportedOnce waits in a capability until the call's time is over, and
// until its client is gone.
func TestCallThatEndsIsReportedOnce(t *testing.T) {
	// The guest asks for a lockout twice: after the first, it ends where it calls the host.
	lockout := asm(num(uint32(abi.OpLockout)), num(0), num(0), num(0x8000), num(8), 0x10, 0, 0x1a)
	for name, test := range map[string]struct {
		wall time.Duration
		want Reason
	}{"time is over": {100 * time.Millisecond, CapabilityDeadline}, "the client hung up": {time.Minute, Canceled}} {
		t.Run(name, func(t *testing.T) {
			_, m, log := openHostile(t, assembled(asm(whenLong(asm(lockout, lockout)), answerWith(asm(num(7)))), nil), memory.Auto,
				Limits{CPU: time.Minute, Wall: test.wall, Sandboxes: 1})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began := make(chan struct{})
			if test.want == Canceled {
				go func() { <-began; cancel() }()
			}
			m.SetCapabilities(Capabilities{Lockouts: waitingLockouts{began: began}})
			if _, err := askIn(ctx, m, "/", long); ReasonOf(err) != test.want {
				t.Errorf("ended with %q, want %q: %v", ReasonOf(err), test.want, err)
			}
			reports := map[Reason]int{CapabilityDeadline: 1, Canceled: 0}[test.want] // any client hangs up: at the level of debugging
			if log.Count("module capability failed") != reports || log.Count("module call failed") != reports {
				t.Errorf("want %d reports of the call, and of the capability, the log says %s", reports, log)
			}
		})
	}
}

// waitingLockouts wait until their context ends.
type waitingLockouts struct {
	Lockouts
	began chan<- struct{}
}

func (l waitingLockouts) Lockout(ctx context.Context, _ string) (time.Duration, error) {
	close(l.began)
	<-ctx.Done()
	return 0, fmt.Errorf("wait for a lock: %w", ctx.Err())
}

// TestCodesOfErrors gives a guest the code of each kind of error, and logs what it is
// not told.
func TestCodesOfErrors(t *testing.T) {
	for _, test := range []struct {
		err    error
		want   abi.Code
		logged int
	}{
		{ErrNotFound, abi.CodeNotFound, 0}, {ErrLimit, abi.CodeLimit, 0}, {abi.ErrFrame, abi.CodeInvalid, 0}, {fmt.Errorf("no disk: %w", ErrInvalid), abi.CodeInvalid, 1},
		{ErrUnavailable, abi.CodeUnavailable, 0}, {errors.New("no disk"), abi.CodeFailed, 1},
	} {
		c, log := idleCall(t, Limits{})
		if got := c.code(abi.OpProfile, fmt.Errorf("read: %w", test.err)); got != test.want || log.Count("no disk") != test.logged {
			t.Errorf("%v: code %d, want %d: %s", test.err, got, test.want, log)
		}
	}
}

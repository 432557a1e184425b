package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

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

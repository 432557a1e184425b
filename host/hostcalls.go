package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"partneredge/host/engine"
	"partneredge/host/prepare"
	"partneredge/host/wasi"
	"partneredge/wasm/abi"
)

// hostFuncs returns the functions that guests may import: those of package abi, the
// one that gives fuel, and WASI's.
func hostFuncs() []engine.Func {
	i32 := func(n int) []engine.ValueType {
		return []engine.ValueType{engine.I32, engine.I32, engine.I32, engine.I32, engine.I32}[:n]
	}
	funcs := []engine.Func{
		{Module: abi.ImportModule, Name: abi.ImportCall, Params: i32(5), Results: i32(1), Call: hostCall},
		{Module: abi.ImportModule, Name: abi.ImportLog, Params: i32(3), Call: hostLog},
		{Module: prepare.ImportModule, Name: prepare.ImportFuel, Results: i32(1), Call: refuel},
	}
	return append(funcs, wasi.Funcs(func(ctx context.Context) *wasi.Call { return &ctx.(*call).wasi })...)
}

func hostLog(ctx context.Context, memory []byte, stack []uint64) {
	c := ctx.(*call)
	c.CountCalls(1)
	text := c.slice(memory, stack[1], stack[2])
	c.log(slog.Level(int32(stack[0])), text)
}

func hostCall(ctx context.Context, memory []byte, stack []uint64) {
	c := ctx.(*call)
	c.CountCalls(1)
	op := abi.Op(int32(stack[0]))
	in := c.slice(memory, stack[1], stack[2])
	out := c.slice(memory, stack[3], stack[4])
	stack[0] = uint64(uint32(c.op(op, in, out)))
}

// slice returns the n bytes of the guest's memory at ptr.
func (c *call) slice(memory []byte, ptr, n uint64) []byte {
	start, end := uint64(uint32(ptr)), uint64(uint32(ptr))+uint64(uint32(n))
	if end > uint64(len(memory)) {
		c.stop(BadPointer, nil)
	}
	return memory[start:end:end]
}

// op runs an operation for the guest and returns the result of edge.call.
func (c *call) op(op abi.Op, in, out []byte) int32 {
	if c.warmUp != nil && op != abi.OpRoutes {
		return result(c.warmUp.answer(op, nil), out)
	}
	if !c.grant.has(op) {
		c.logging(func() { c.m.logDenied(op) })
		return int32(abi.CodeDenied)
	}
	if scope := op.Scope(); c.principal.Scopes&scope != scope {
		c.logging(func() { c.m.logUnscoped(op) })
		return int32(abi.CodeDenied)
	}
	if len(in) > maxInput {
		c.logging(func() { c.m.logMalformed(op) })
		return int32(abi.CodeInvalid)
	}
	if need := room(op); len(out) < need {
		return short(need)
	}
	start := c.m.runtime.elapsed()
	if mayWait(op) {
		c.pause()
	}
	answer, err := c.perform(c.Context(), op, in, c.answer[:0])
	c.resume()
	var code abi.Code
	if err != nil {
		code = c.code(op, err) // while the time is the host's, which may have to log it
	}
	now := c.m.runtime.elapsed()
	c.reached(start, now)
	c.inHost += now - start
	c.mark()
	if err != nil {
		return int32(code)
	}
	if cap(answer) <= maxAnswerRoom {
		c.answer = answer
	}
	return result(answer, out)
}

// pause unlocks the goroutine from its thread until resume.
func (c *call) pause() {
	if !c.paused {
		c.paused = true
		c.memory.Pause()
	}
}

// resume ends what pause began, if it did.
func (c *call) resume() {
	if c.paused {
		c.paused = false
		c.memory.Resume()
	}
}

// mayWait reports whether an operation does more than read what the host holds, so
// that it often waits, for a disk or for others that write. To spend a token takes so
// little that its lock is nearly always free: who spends it says when it is not.
func mayWait(op abi.Op) bool {
	switch op {
	case abi.OpTake, abi.OpLockout, abi.OpKey, abi.OpKeyScopes, abi.OpRoutes, abi.OpProfile, abi.OpInsights, abi.OpFirings:
		return false
	}
	return true
}

// maxInput bounds the input of an operation, in bytes, by what comes with a request,
// framed.
const maxInput = abi.InputSize

// Room that answers need at most, in bytes.
const (
	keptSize       = 5 + 64    // an abi.Kept frame
	reasonSize     = 64        // the reason of a refusal
	subscribedSize = 21 + 3*64 // an abi.Subscribed frame
)

// room returns how many bytes the guest must have for an operation's answer before
// the operation is done; 0 where it does no harm to do it twice.
func room(op abi.Op) int {
	switch op {
	case abi.OpLockout, abi.OpFailure:
		return 8
	case abi.OpTake:
		return 25
	case abi.OpSubscribe:
		return reasonSize
	case abi.OpSubscribeOnce:
		return subscribedSize
	case abi.OpRevoke:
		return 1
	case abi.OpLeadOnce:
		return keptSize
	}
	return 0
}

// maxAnswerRoom is how much room for answers a sandbox keeps, in bytes.
const maxAnswerRoom = 64 << 10

// short returns the abi.CodeShort for an answer of n bytes.
func short(n int) int32 { return int32(abi.CodeShort) - int32(min(n, math.MaxInt32>>1)) }

// result copies an answer to the guest and returns its length, or the room it needs.
func result(answer, out []byte) int32 {
	if len(answer) > len(out) {
		return short(len(answer))
	}
	return int32(copy(out, answer))
}

// perform runs a granted operation and appends its answer to dst. in is the guest's
// memory: what a capability may keep is copied. dst is the host's, for no other
// goroutine may write to a guest's memory (memory.Linear.Watch).
func (c *call) perform(ctx context.Context, op abi.Op, in, dst []byte) (answer []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	caps := &c.grant.caps
	switch op {
	case abi.OpLockout:
		d, err := caps.Lockouts.Lockout(ctx, string(in))
		return appendDuration(dst, d), err
	case abi.OpFailure:
		d, err := caps.Lockouts.Failure(ctx, string(in))
		return appendDuration(dst, d), err
	case abi.OpRoutes:
		return append(dst, c.m.routes...), nil
	case abi.OpKeyScopes:
		return caps.Keys.AppendKey(ctx, dst, in)
	case abi.OpKey:
		at := len(dst)
		dst, err = caps.Keys.AppendKey(ctx, dst, in)
		if err == nil {
			dst = dst[:at+len(abi.WithoutOwn(dst[at:]))]
		}
		return dst, err
	case abi.OpTake:
		if len(in) < 4 {
			return nil, abi.ErrFrame
		}
		bucket, err := caps.Buckets.Take(ctx, string(in[4:]), int(binary.LittleEndian.Uint32(in)))
		return bucket.Append(dst), err
	case abi.OpProfile:
		return caps.Views.AppendProfile(ctx, dst, c.principal)
	case abi.OpInsights, abi.OpFirings:
		if len(in) != 12 {
			return nil, abi.ErrFrame
		}
		at, limit := int64(binary.LittleEndian.Uint64(in)), int(binary.LittleEndian.Uint32(in[8:]))
		if op == abi.OpInsights {
			return caps.Views.AppendInsights(ctx, dst, c.principal, at, limit)
		}
		return caps.Views.AppendFirings(ctx, dst, c.principal, at, limit)
	case abi.OpSubscribe, abi.OpSubscribeOnce, abi.OpRevoke:
		return c.performSubscriptions(ctx, op, in, dst)
	case abi.OpLead:
		return dst, caps.Outbox.AppendLead(ctx, c.principal, in)
	case abi.OpLeadOnce:
		var once abi.Once
		if err := once.Parse([]byte(string(in))); err != nil {
			return nil, err
		}
		kept, err := caps.Outbox.LeadOnce(ctx, c.principal, &once)
		return kept.Append(dst), err
	}
	return nil, abi.ErrFrame
}

// performSubscriptions is perform for the operations on subscriptions.
func (c *call) performSubscriptions(ctx context.Context, op abi.Op, in, dst []byte) ([]byte, error) {
	subscriptions := c.grant.caps.Subscriptions
	switch op {
	case abi.OpSubscribe:
		var s abi.Subscription
		if err := s.Parse([]byte(string(in))); err != nil {
			return nil, err
		}
		reason, err := subscriptions.Subscribe(ctx, c.principal, &s)
		return append(dst, reason[:min(len(reason), reasonSize)]...), err
	case abi.OpSubscribeOnce:
		var once abi.SubscribeOnce
		if err := once.Parse([]byte(string(in))); err != nil {
			return nil, err
		}
		subscribed, err := subscriptions.SubscribeOnce(ctx, c.principal, &once)
		subscribed.Reason = subscribed.Reason[:min(len(subscribed.Reason), reasonSize)]
		return subscribed.Append(dst), err
	default: // abi.OpRevoke
		already, err := subscriptions.Revoke(ctx, c.principal, string(in))
		if already {
			return append(dst, 1), err
		}
		return append(dst, 0), err
	}
}

func appendDuration(dst []byte, d time.Duration) []byte {
	return binary.LittleEndian.AppendUint64(dst, uint64(d.Milliseconds()))
}

// code returns what the guest sees of a capability's error.
func (c *call) code(op abi.Op, err error) abi.Code {
	switch {
	case errors.Is(err, ErrNotFound):
		return abi.CodeNotFound
	case errors.Is(err, ErrLimit):
		return abi.CodeLimit
	case errors.Is(err, abi.ErrFrame):
		c.m.logMalformed(op)
		return abi.CodeInvalid
	case errors.Is(err, ErrInvalid): // the module's own fault
		c.m.logInvalid(op, err)
		return abi.CodeInvalid
	}
	c.hindered = true
	if errors.Is(err, ErrUnavailable) {
		return abi.CodeUnavailable
	}
	// The client hung up: the capability did not fail. One that took all the call's time did.
	if errors.Is(c.Context().Err(), context.Canceled) && errors.Is(err, context.Canceled) {
		return abi.CodeUnavailable
	}
	c.m.runtime.config.Log.Error("module capability failed",
		"module", c.m.manifest.Name, "op", int(op), "error", strings.ToValidUTF8(err.Error(), "?"))
	return abi.CodeFailed
}

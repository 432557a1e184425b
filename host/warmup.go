package host

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"partneredge/host/engine"
	"partneredge/host/prepare"
	"partneredge/wasm/abi"
)

// warmUpLimit bounds each step of a module's start and warm-up.
const warmUpLimit = 10 * time.Second

// afterWarmUp is more than the time that passes in a warm-up: a guest's monotonic
// clock must not go back when its first request comes.
const afterWarmUp = 24 * time.Hour

// warmUp stands for the host while a module's image is made: it answers operations,
// and gives time and randomness. Restarted, it does so in the same way again, so a
// sandbox whose state is not all in memory and globals can be made by repeating the
// warm-up.
type warmUp struct {
	seed    [32]byte
	random  *rand.ChaCha8
	wallNow time.Time
	elapsed time.Duration
}

func newWarmUp(now time.Time) (*warmUp, error) {
	w := &warmUp{wallNow: now}
	if _, err := crand.Read(w.seed[:]); err != nil {
		return nil, fmt.Errorf("read randomness: %w", err)
	}
	return w, nil
}

// restart returns w as it was at its beginning.
func (w *warmUp) restart() *warmUp {
	return &warmUp{seed: w.seed, random: rand.NewChaCha8(w.seed), wallNow: w.wallNow, elapsed: time.Second}
}

// clock returns a time that goes on by a microsecond each time that it is read, so
// that a guest which waits for a moment does not wait for ever.
func (w *warmUp) clock(realtime bool) uint64 {
	w.elapsed = min(w.elapsed+time.Microsecond, afterWarmUp)
	if realtime {
		return uint64(w.wallNow.Add(w.elapsed).UnixNano())
	}
	return uint64(w.elapsed)
}

// runWarmUp runs all that comes before an image. It is the same every time.
func (s *sandbox) runWarmUp(ctx context.Context) error {
	c, m := s.call, s.call.m
	c.warmUp = m.warmUp.restart()
	defer func() { c.warmUp = nil }()
	bytes := s.instance.Memory()
	for _, d := range m.prepared.Data {
		copy(bytes[d.Offset:], d.Bytes)
	}
	for _, name := range []string{prepare.ExportStart, "_initialize"} {
		if f := s.instance.Function(name, nil, nil); f != nil {
			if err := s.run(ctx, f); err != nil {
				return err
			}
		}
	}
	if err := s.findInput(ctx); err != nil {
		return err
	}
	for _, req := range m.warmUpRequests() {
		var resp abi.Response
		if err := s.serve(ctx, req, &resp); err != nil {
			return err
		}
		s.countWarmUp()
	}
	return nil
}

// run calls a function that takes nothing. Its result is in s.stack.
func (s *sandbox) run(ctx context.Context, f engine.Function) error {
	s.call.begin(ctx, abi.Principal{}, 0)
	defer s.call.end()
	defer s.countWarmUp()
	if err := s.call.run(f, s.stack[:]); err != nil {
		return s.call.failure(err)
	}
	return nil
}

// countWarmUp counts what a step of the warm-up computed.
func (s *sandbox) countWarmUp() {
	s.call.charge()
	s.warmedUp += s.call.computed
}

// findInput asks where the guest's input buffer is.
func (s *sandbox) findInput(ctx context.Context) error {
	input := s.instance.Function(abi.ExportInput, nil, []engine.ValueType{engine.I64})
	if input == nil {
		return errors.New("it does not export " + abi.ExportInput)
	}
	if err := s.run(ctx, input); err != nil {
		return err
	}
	s.inputAt, s.inputRoom = uint32(s.stack[0]>>32), uint32(s.stack[0])
	if uint64(s.inputAt)+uint64(s.inputRoom) > uint64(len(s.instance.Memory())) {
		return errors.New("its input buffer is outside its memory")
	}
	if s.inputRoom < abi.InputSize {
		return fmt.Errorf("its input buffer holds %d bytes, fewer than %d", s.inputRoom, abi.InputSize)
	}
	return nil
}

// warmUpRequests returns the requests of the warm-up. Each comes twice: what is made
// on the first may still settle on the next.
func (m *Module) warmUpRequests() []*abi.Request {
	list := m.manifest.Warmup
	if len(list) == 0 {
		list = []Warmup{{Method: "GET", Path: "/"}}
	}
	var requests []*abi.Request
	for _, w := range slices.Repeat(list, 2) {
		req := w.request()
		req.Now, req.Random = m.warmUp.wallNow.UnixMicro(), m.warmUp.seed
		requests = append(requests, req)
	}
	return requests
}

// request returns the request, without time and randomness.
func (w *Warmup) request() *abi.Request {
	req := &abi.Request{Method: w.Method, Path: w.Path, Query: w.Query, Params: w.params(), Client: "192.0.2.1", Body: []byte(w.Body),
		Principal: abi.Principal{KeyID: "key_warm", AccountID: "acc_warm", Environment: abi.EnvTest, Scopes: abi.AllScopes}}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		req.Headers = append(req.Headers, abi.Header{Name: name, Value: w.Headers[name]})
	}
	return req
}

// Size returns how many bytes of a guest's input buffer the request takes.
func (w *Warmup) Size() int { return len(w.request().Append(nil)) }

// params returns the parameters of the request's path, in the order of their names.
func (w *Warmup) params() []abi.Param {
	if w.Param != "" {
		return []abi.Param{{Value: w.Param}}
	}
	var params []abi.Param
	for _, name := range slices.Sorted(maps.Keys(w.Params)) {
		params = append(params, abi.Param{Name: name, Value: w.Params[name]})
	}
	return params
}

// answer appends a made-up answer to an operation, such that the code of a request
// that succeeds runs. There is nobody's data in it.
func (w *warmUp) answer(op abi.Op, dst []byte) []byte {
	const inFuture = 4102444800000000 // 2100-01-01
	now := w.wallNow.UnixMicro()
	switch op {
	case abi.OpLockout, abi.OpFailure:
		return appendDuration(dst, 0)
	case abi.OpKey, abi.OpKeyScopes:
		key := abi.Key{ID: "key_warm", AccountID: "acc_warm", Environment: abi.EnvTest, Scopes: abi.AllScopes,
			RateLimit: 100, Expires: inFuture}
		return key.Append(dst)
	case abi.OpTake:
		bucket := abi.Bucket{Allowed: true, Limit: 100, Remaining: 99, ResetMS: 600}
		return bucket.Append(dst)
	case abi.OpProfile:
		profile := abi.Profile{AgentID: "agt_warm", Email: "warm@example.com", FullName: "Warm Up", Joined: now,
			AccountID: "acc_warm", AccountName: "Warm Up", Mode: "live"}
		return profile.Append(dst)
	case abi.OpInsights:
		list := abi.Insights{History: true}
		for i := range 20 {
			list.Items = append(list.Items, abi.Insight{ID: fmt.Sprint("ins_warm", i), Headline: "Warm up",
				Detail: "Nobody reads this.", Created: now - int64(i)})
		}
		return list.Append(dst)
	case abi.OpFirings:
		list := abi.Firings{More: true}
		for i := range 20 {
			list.Items = append(list.Items, abi.Firing{ID: fmt.Sprint("fir_warm", i), Name: "warm_up",
				Action: "none", Triggered: now - int64(i), Data: []byte(`{"warm":"up"}`)})
		}
		return list.Append(dst)
	case abi.OpSubscribeOnce:
		return (&abi.Subscribed{Outcome: abi.New, Created: now, ID: "whs_warm"}).Append(dst)
	case abi.OpRevoke:
		return append(dst, 0)
	case abi.OpLeadOnce:
		return (&abi.Kept{Outcome: abi.New, ID: "lead_warm"}).Append(dst)
	}
	return dst
}

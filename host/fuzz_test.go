package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"partneredge/host/engine"
	"partneredge/host/memory"
	"partneredge/host/wasi"
	"partneredge/wasm/abi"
)

// FuzzHostFunctions calls every function that a guest can import with any parameters over
// any memory: it returns, or ends the guest's call.
func FuzzHostFunctions(f *testing.F) {
	funcs := hostFuncs()
	for i := range funcs {
		f.Add(byte(i), []byte{0, 0, 0, 0, 16, 0, 0, 0, 32, 0, 0, 0, 64, 0, 0, 0, 8, 0, 0, 0}, make([]byte, 256))
		f.Add(byte(i), []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, []byte{1})
	}
	for op := abi.OpLockout; op <= abi.OpSubscribeOnce; op++ {
		f.Add(byte(0), []byte{byte(op), 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 16, 0, 0, 0, 128, 0, 0, 0}, make([]byte, 256))
	}
	m := fuzzModule(f)
	image, err := memory.NewImage(make([]byte, 64<<10))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(image.Close)
	mem, err := image.Map(64<<10, m.runtime.config.Reset)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(mem.Free)
	f.Fuzz(func(t *testing.T, which byte, args, content []byte) {
		fn := funcs[int(which)%len(funcs)]
		stack := make([]uint64, max(len(fn.Params), 1))
		for i, p := range fn.Params {
			var word [8]byte
			n := 4
			if p == engine.I64 {
				n = 8
			}
			args = args[copy(word[:n], args):]
			stack[i] = binary.LittleEndian.Uint64(word[:])
		}
		mem.Watch()
		defer mem.Unwatch()
		whole := mem.Resize(uint64(mem.Max()))
		guest := whole[:copy(whole, content)]
		defer func() {
			if _, err := mem.Reset(); err != nil || !bytes.Equal(whole, image.Bytes()) {
				t.Fatalf("%s.%s: memory is not the image again: %v", fn.Module, fn.Name, err)
			}
		}()
		c := newCall(m, mem)
		c.begin(context.Background(), abi.Principal{AccountID: "acc_1", Scopes: abi.AllScopes}, 1)
		defer c.end()
		defer func() {
			if e := recover(); e != nil {
				if s, ok := e.(*stop); !ok || s != c.stopped {
					t.Fatalf("%s.%s: panic: %v", fn.Module, fn.Name, e)
				}
			}
		}()
		fn.Call(c, guest, stack)
	})
}

// fuzzModule returns a module that has every capability, and no code.
func fuzzModule(f *testing.F) *Module {
	f.Helper()
	r, err := New(context.Background(), Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = r.Close(context.Background()) })
	manifest := Manifest{Name: "fuzz", Capabilities: []abi.Capability{abi.Keys, abi.Buckets, abi.Lockouts, abi.Views, abi.Subscriptions, abi.Outbox}}
	m := &Module{runtime: r, manifest: manifest, limits: Limits{Wall: 5 * time.Millisecond}.withDefaults()}
	m.SetCapabilities(Capabilities{Keys: sample{}, Buckets: sample{}, Lockouts: lockouts{}, Views: fuzzViews{}, Subscriptions: fuzzViews{}, Outbox: fuzzViews{}})
	if m.dialer, err = wasi.NewDialer(wasi.DialConfig{Log: r.config.Log}); err != nil {
		f.Fatal(err)
	}
	return m
}

// fuzzViews answers with more than the guest has room for.
type fuzzViews struct{}

func (fuzzViews) AppendProfile(_ context.Context, dst []byte, _ abi.Principal) ([]byte, error) {
	return append(dst, make([]byte, 300)...), nil
}

func (fuzzViews) AppendInsights(_ context.Context, dst []byte, _ abi.Principal, _ int64, limit int) ([]byte, error) {
	return append(dst, make([]byte, uint(limit)%1000)...), nil
}

func (fuzzViews) AppendFirings(_ context.Context, dst []byte, _ abi.Principal, _ int64, _ int) ([]byte, error) {
	return dst, ErrUnavailable
}

func (fuzzViews) Subscribe(context.Context, abi.Principal, *abi.Subscription) (string, error) {
	return "host_not_public", nil
}

func (fuzzViews) SubscribeOnce(context.Context, abi.Principal, *abi.SubscribeOnce) (abi.Subscribed, error) {
	return abi.Subscribed{Outcome: abi.New}, nil
}

func (fuzzViews) Revoke(context.Context, abi.Principal, string) (bool, error) { return true, ErrLimit }

func (fuzzViews) AppendLead(context.Context, abi.Principal, []byte) error { return ErrNotFound }

func (fuzzViews) LeadOnce(context.Context, abi.Principal, *abi.Once) (abi.Kept, error) {
	return abi.Kept{}, nil
}

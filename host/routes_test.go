package host

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/route"
)

// keyOf is a Keys with one key.
type keyOf abi.Key

func (k keyOf) AppendKey(_ context.Context, dst, _ []byte) ([]byte, error) {
	return (*abi.Key)(&k).Append(dst), nil
}

type noKeys struct{ Keys }

func (noKeys) AppendKey(_ context.Context, dst, _ []byte) ([]byte, error) {
	return append(dst, 1, 2, 3), ErrNotFound
}

// TestKeyWithoutOwnScopes checks that a gate which knows of no own scopes gets a frame
// that it can parse, and one that does the whole.
func TestKeyWithoutOwnScopes(t *testing.T) {
	key := abi.Key{ID: "key_1", AccountID: "acc_1", Environment: abi.EnvLive, Scopes: abi.ReadAgent, Allowlist: []string{"::/0", "10.0.0.0/8"}}
	older := key.Append(nil)
	key.Own = "x:quotes x:rates"
	whole := key.Append(nil)
	c := &call{m: &Module{}, grant: newGrant(Manifest{Capabilities: []abi.Capability{abi.Keys}}, Capabilities{Keys: keyOf(key)})}
	for _, tt := range []struct {
		op   abi.Op
		want []byte
	}{{abi.OpKey, older}, {abi.OpKeyScopes, whole}} {
		got, err := c.perform(t.Context(), tt.op, []byte("token"), []byte("before"))
		if err != nil || !bytes.Equal(got, append([]byte("before"), tt.want...)) {
			t.Errorf("operation %d: %q and %v, want %q", tt.op, got, err, tt.want)
		}
	}
	c.grant = newGrant(Manifest{Capabilities: []abi.Capability{abi.Keys}}, Capabilities{Keys: noKeys{}})
	if _, err := c.perform(t.Context(), abi.OpKey, nil, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown key: %v", err)
	}
}

// TestRoutesAreGranted checks who gets the route table, while the image is made and
// afterwards.
func TestRoutesAreGranted(t *testing.T) {
	frame := abi.Routes(route.Contract()).Append(nil)
	for _, granted := range []bool{true, false} {
		var manifest Manifest
		want := int32(abi.CodeDenied)
		if granted {
			manifest.Capabilities = []abi.Capability{abi.RouteTable}
			want = int32(len(frame))
		}
		r, err := New(t.Context(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close(context.Background()) })
		m := &Module{runtime: r, routes: frame}
		m.grant.Store(newGrant(manifest, Capabilities{}))
		for _, w := range []*warmUp{nil, {}} {
			c := &call{m: m, grant: m.grant.Load(), warmUp: w, parent: t.Context()}
			out := make([]byte, 4096)
			if got := c.op(abi.OpRoutes, nil, out); got != want || granted && !bytes.Equal(out[:got], frame) {
				t.Errorf("granted %t, warming up %t: %d, want %d", granted, w != nil, got, want)
			}
		}
	}
}

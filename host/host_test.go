package host_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"partneredge/host"
	"partneredge/wasm/abi"
)

var fixedNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// newRuntime starts a runtime, which shares its compiled code with the whole test run.
func newRuntime(t testing.TB, change func(*host.Config)) (*host.Runtime, *host.LogBuffer) {
	t.Helper()
	log := &host.LogBuffer{}
	config := host.Config{CacheDir: host.CacheDir, Clock: func() time.Time { return fixedNow },
		Log: slog.New(slog.NewTextHandler(log, nil))}
	if change != nil {
		change(&config)
	}
	r, err := host.New(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r, log
}

func openGuest(t testing.TB, r *host.Runtime, manifest host.Manifest, caps host.Capabilities, limits host.Limits) *host.Module {
	t.Helper()
	m, err := r.Open(context.Background(), host.Build(t, "./testdata/guest"), manifest, caps, limits)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// get returns the body of the answer to a GET of path.
func get(t testing.TB, m *host.Module, path string) string {
	t.Helper()
	var resp abi.Response
	if err := m.Call(context.Background(), &abi.Request{Method: "GET", Path: path, Principal: abi.Principal{Scopes: abi.AllScopes}}, &resp); err != nil {
		t.Fatal(err)
	}
	return string(resp.Body)
}

type views struct{ host.Views }

func (views) AppendProfile(_ context.Context, dst []byte, p abi.Principal) ([]byte, error) {
	profile := abi.Profile{FullName: "Agent of " + p.AccountID}
	return profile.Append(dst), nil
}

func TestCall(t *testing.T) {
	r, log := newRuntime(t, nil)
	m := openGuest(t, r, host.Manifest{Name: "guest"}, host.Capabilities{Views: views{}}, host.Limits{})

	req := abi.Request{Method: "POST", Path: "/echo", Query: "q=1", Client: "::1", Body: []byte("hello"), Random: [32]byte{1, 2, 3, 4},
		Headers: []abi.Header{{Name: "x-shown", Value: "yes"}}}
	var resp abi.Response
	if err := m.Call(context.Background(), &req, &resp); err != nil {
		t.Fatal(err)
	}
	if got, want := string(resp.Body), "POST /echo?q=1 1772600767000000 01020304 [{x-shown yes}] hello"; got != want {
		t.Errorf("echo: got %q, want %q", got, want)
	}
	if len(resp.Headers) != 1 || resp.Headers[0] != (abi.Header{Name: "x-client", Value: "::1"}) {
		t.Errorf("headers: got %v", resp.Headers)
	}
	for range 3 { // the two requests of the warm-up are in the image
		if got := get(t, m, "/served"); got != "3" {
			t.Errorf("served: got %s, want 3", got)
		}
	}
	if a, b := get(t, m, "/random"), get(t, m, "/random"); a == b || len(a) != 32 {
		t.Errorf("random: got %s, then %s", a, b)
	}
	if got, want := get(t, m, "/clock"), "2026-03-04T05:06:07Z"; got != want {
		t.Errorf("clock: got %s, want %s", got, want)
	}
	if got := get(t, m, "/sleep"); got != "true" {
		t.Errorf("sleep: got %s", got)
	}
	if got := get(t, m, "/environment"); got != "0 0" {
		t.Errorf("environment: got %s", got)
	}
	for range 2 {
		if got := get(t, m, "/profile"); !strings.Contains(got, "not granted") {
			t.Errorf("profile without a grant: got %s", got)
		}
	}
	if n := log.Count("refused a capability"); n != 1 {
		t.Errorf("refusal logged %d times, want once: %s", n, log)
	}
}

func TestGranted(t *testing.T) {
	r, _ := newRuntime(t, nil)
	m := openGuest(t, r, host.Manifest{Name: "guest", Capabilities: []abi.Capability{abi.Views}}, host.Capabilities{Views: views{}}, host.Limits{})
	var resp abi.Response
	req := abi.Request{Method: "GET", Path: "/profile", Principal: abi.Principal{AccountID: "acc_1", Scopes: abi.ReadAgent}}
	if err := m.Call(context.Background(), &req, &resp); err != nil {
		t.Fatal(err)
	}
	if got, want := string(resp.Body), "Agent of acc_1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestScope holds that an operation needs the contract's scope for it, whatever the
// manifest grants and whatever scope the module's route has.
func TestScope(t *testing.T) {
	r, log := newRuntime(t, nil)
	m := openGuest(t, r, host.Manifest{Name: "guest", Capabilities: []abi.Capability{abi.Views}}, host.Capabilities{Views: views{}}, host.Limits{})
	for _, tt := range []struct {
		principal abi.Principal
		want      string
	}{
		{abi.Principal{AccountID: "acc_1", Own: "x:quotes"}, "call host: not granted by the manifest, or the key lacks the scope"},
		{abi.Principal{AccountID: "acc_1", Scopes: abi.AllScopes &^ abi.ReadAgent}, "call host: not granted by the manifest, or the key lacks the scope"},
		{abi.Principal{AccountID: "acc_1", Scopes: abi.ReadAgent, Own: "x:quotes"}, "Agent of acc_1"},
	} {
		var resp abi.Response
		if err := m.Call(context.Background(), &abi.Request{Method: "GET", Path: "/profile", Principal: tt.principal}, &resp); err != nil {
			t.Fatal(err)
		}
		if got := string(resp.Body); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.principal, got, tt.want)
		}
	}
	if n := log.Count("lacks the scope"); n != 1 || log.Count("scope=read:agent") != 1 {
		t.Errorf("refusal logged %d times, want once with the scope: %s", n, log)
	}
}

// named is a Views whose answers have its name.
type named struct {
	host.Views
	name string
}

func (n named) AppendProfile(_ context.Context, dst []byte, _ abi.Principal) ([]byte, error) {
	return (&abi.Profile{FullName: n.name}).Append(dst), nil
}

// TestSetCapabilities replaces what a module was opened with, and grants no more
// than the manifest names.
func TestSetCapabilities(t *testing.T) {
	r, _ := newRuntime(t, nil)
	for _, granted := range []bool{true, false} {
		manifest := host.Manifest{Name: "guest"}
		if granted {
			manifest.Capabilities = []abi.Capability{abi.Views}
		}
		m := openGuest(t, r, manifest, host.Capabilities{}, host.Limits{})
		for _, name := range []string{"", "first", "second"} {
			want := name
			if name != "" {
				m.SetCapabilities(host.Capabilities{Views: named{name: name}})
			}
			if name == "" || !granted {
				want = "not granted"
			}
			if got := get(t, m, "/profile"); !strings.Contains(got, want) {
				t.Errorf("granted %t, capability %q: got %q", granted, name, got)
			}
		}
	}
}

// failing views answer every request with an error.
type failing struct {
	host.Views
	err error
}

func (f failing) AppendProfile(_ context.Context, dst []byte, _ abi.Principal) ([]byte, error) {
	return dst, f.err
}

// TestHindered: an answer tells that a capability was unavailable or failed.
func TestHindered(t *testing.T) {
	r, _ := newRuntime(t, nil)
	m := openGuest(t, r, host.Manifest{Name: "guest", Capabilities: []abi.Capability{abi.Views}}, host.Capabilities{}, host.Limits{})
	for _, tt := range []struct {
		name     string
		err      error
		path     string
		hindered bool
	}{
		{"unavailable", host.ErrUnavailable, "/profile", true},
		{"failed", errors.New("no disk"), "/profile", true},
		{"not found", host.ErrNotFound, "/profile", false},
		{"invalid", host.ErrInvalid, "/profile", false},
		{"unavailable, answered all the same", host.ErrUnavailable, "/profile-or-none", true},
		{"answered without it", host.ErrUnavailable, "/served", false},
	} {
		m.SetCapabilities(host.Capabilities{Views: failing{err: tt.err}})
		var resp abi.Response
		if err := m.Call(t.Context(), &abi.Request{Method: "GET", Path: tt.path, Principal: abi.Principal{Scopes: abi.AllScopes}}, &resp); err != nil {
			t.Fatal(err)
		}
		if resp.Hindered != tt.hindered {
			t.Errorf("%s: hindered is %t, want %t", tt.name, resp.Hindered, tt.hindered)
		}
	}
}

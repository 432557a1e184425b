package hosttest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
	"time"

	"partneredge/host/hosttest"
	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
)

// build makes the project's modules, and tells where they are.
func build(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func built() (dir string, err error) {
	if out, err := exec.Command("make", "-s", "-C", "../..", "modules").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build modules: %w\n%s", err, out)
	}
	return "../../build/modules", nil
}

// The same requests to the same backend get the same answers, identifiers and
// secrets included.
func TestAnswersAreReproducible(t *testing.T) {
	dir := build(t)
	answers := func() (all []byte) {
		clock := fake.NewClock()
		backend, demo := fake.NewDemo(clock.Now)
		api := hosttest.Handler(t, dir, backend, clock.Now)
		for _, r := range []struct{ method, path, key, body string }{
			{"GET", "agents/me", demo.Live, ""},
			{"GET", "coaching/insights", demo.Test, ""},
			{"POST", "leads", demo.Live, `{"name":"Sam Okafor","email":"sam@example.com"}`},
			{"POST", "webhooks/subscribe", demo.Live, `{"target_url":"https://1.1.1.1/","events":["deal.stage_changed"]}`},
			{"GET", "agents/me", "", ""},
		} {
			req := httptest.NewRequest(r.method, "/api/v2/public/"+r.path, bytes.NewReader([]byte(r.body)))
			if r.key != "" {
				req.Header.Set("Authorization", "Bearer "+r.key)
			}
			w := httptest.NewRecorder()
			api.ServeHTTP(w, req)
			if w.Code >= http.StatusInternalServerError {
				t.Fatalf("%s %s: %d %s", r.method, r.path, w.Code, w.Body)
			}
			all = append(append(all, w.Body.Bytes()...), '\n')
			clock.Advance(time.Millisecond)
		}
		return all
	}
	if first, second := answers(), answers(); !bytes.Equal(first, second) {
		t.Errorf("first\n%s\nthen\n%s", first, second)
	}
}

// A backend that cannot answer is an answer too.
func TestOutage(t *testing.T) {
	clock := fake.NewClock()
	backend, demo := fake.NewDemo(clock.Now)
	api := hosttest.Handler(t, build(t), backend, clock.Now)
	backend.Fail(abi.OpKey, abi.CodeUnavailable)
	req := httptest.NewRequest("GET", "/api/v2/public/agents/me", nil)
	req.Header.Set("Authorization", "Bearer "+demo.Live)
	w := httptest.NewRecorder()
	api.ServeHTTP(w, req)
	if w.Code != http.StatusInternalServerError || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

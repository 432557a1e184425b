package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"partneredge/edge/release"
	"partneredge/host"
	"partneredge/wasm/httpfront"
)

// Check opens a verified release and smoke-tests it as a node of this program does, and
// returns why it would be refused. cache is the runtime's. A call may take much longer than
// on a node: this machine may be slower, and busy.
func Check(ctx context.Context, r *release.Release, runtime *host.Runtime, cache string) error {
	l := &loader{Config{
		Runtime: runtime, Cache: cache, CallCPU: time.Minute, CallTimeout: time.Minute, Log: slog.New(slog.DiscardHandler),
	}}
	d, err := l.openRelease(ctx, r, func() {})
	if err == nil {
		d.leave()
	}
	return err
}

// smokeCase is a request that a release must answer as wanted before it serves.
type smokeCase struct {
	method, path, body string
	key                string // "": none
	status             int
	wants              string // that the body must hold
}

// smokeCases returns a request of each route, each kind of refusal that all routes
// share, and a body that is wrong. They are few: they show that a release can run
// at all; what it is worth shows in its canary.
func smokeCases() []smokeCase {
	const api = "/api/v2/public/"
	unknown := strings.Replace(smokeToken, "0003z6w65", "0009XXXXX", 1)
	return []smokeCase{
		{"GET", api + "agents/me", "", "", 401, `"error"`},
		{"GET", api + "agents/me", "", unknown, 401, `"error"`},
		{"GET", api + "nothing/here", "", smokeToken, 404, `"not_found"`},
		{"DELETE", api + "agents/me", "", smokeToken, 405, `"method_not_allowed"`},
		{"GET", api + "agents/me", "", smokeToken, 200, smokeEmail},
		{"GET", api + "coaching/insights?limit=2", "", smokeToken, 200, smokeInsight},
		{"GET", api + "sentinels/firings?limit=2", "", smokeToken, 200, smokeFiring},
		{"POST", api + "leads", `{"name":"Smoke Test","email":"smoke@example.com"}`, smokeToken, 201, `"lead`},
		{"POST", api + "leads", `{"name":`, smokeToken, 400, `"json_parse_failed"`},
		{"POST", api + "webhooks/subscribe", `{"target_url":"https://example.com/hook","events":["sentinel.fired"]}`, smokeToken, 201, `"secret"`},
		{"DELETE", api + "webhooks/whs_smoke", "", smokeToken, 200, `"ok"`},
	}
}

// smokeTest sends every smoke case through the HTTP front of a release that
// serves nobody yet.
func smokeTest(ctx context.Context, cfg httpfront.Config) error {
	front := httpfront.New(cfg)
	for _, one := range smokeCases() {
		req, err := http.NewRequestWithContext(ctx, one.method, one.path, strings.NewReader(one.body))
		if err != nil {
			return fmt.Errorf("smoke test: %w", err)
		}
		req.RemoteAddr = "192.0.2.1:1" // a documentation address
		if one.key != "" {
			req.Header.Set("Authorization", "Bearer "+one.key)
		}
		w := httptest.NewRecorder()
		front.ServeHTTP(w, req)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("smoke test: %w", ctx.Err())
		case w.Code != one.status:
			return fmt.Errorf("smoke test: %s %s answered %d, not %d", one.method, one.path, w.Code, one.status)
		case !json.Valid(w.Body.Bytes()):
			return fmt.Errorf("smoke test: %s %s answered what is not JSON", one.method, one.path)
		case !bytes.Contains(w.Body.Bytes(), []byte(one.wants)):
			return fmt.Errorf("smoke test: %s %s answered without %s", one.method, one.path, one.wants)
		case one.status == http.StatusOK && w.Header().Get("X-Ratelimit-Limit") != "100":
			return fmt.Errorf("smoke test: %s %s answered without its rate limit", one.method, one.path)
		}
	}
	return nil
}

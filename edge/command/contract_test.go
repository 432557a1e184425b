package command

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"partneredge/edge/node/openapi"
	"partneredge/store/logtest"
	"partneredge/wasm/contract"
)

// TestContract runs every case of the partner interface against what `edge dev`
// runs, over HTTP, holds each exchange against the OpenAPI document and the
// document against what was exchanged, and the log against every secret.
func TestContract(t *testing.T) {
	t.Parallel()
	log := new(logtest.Buffer)
	d := startDevForTest(t, t.TempDir(), func(c *devConfig) {
		c.wanDelay = time.Millisecond // so that there is a relay to cut
		c.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	base := d.nodes[0].URL()
	fixture := newAdminFixture(d)
	document := newConformance(t)
	secrets := newSecrets(d)
	target := contract.Target{
		Send:    contract.Server(base, nil),
		Clients: runtime.GOOS == "linux", // all of 127.0.0.0/8 is the machine itself
		Fixture: fixture,
		Outage: func(t testing.TB) func() {
			d.relays[0].Cut()
			return func() {
				d.relays[0].Mend()
				await(t, "the node to find the origin again", func() bool { return fixture.metric(t, "edge_origin_connected") == 1 })
			}
		},
		Observe: func(t testing.TB, x contract.Exchange) {
			document.observe(t, x)
			secrets.observe(x)
		},
	}
	t.Run("cases", func(t *testing.T) {
		for _, name := range contract.Run(t, target) {
			if target.Clients && contractNeeds(name)&contract.Clock == 0 {
				t.Errorf("%s was left out", name)
			}
		}
	})
	t.Run("every operation", func(t *testing.T) { everyOperation(t, target) })
	t.Run("reference", func(t *testing.T) { reference(t, target) })
	if target.Clients {
		for _, missing := range document.unexercised() {
			t.Errorf("the document names %s, which no case has met", missing)
		}
	}
	secrets.add(fixture.plaintexts()...)
	secrets.check(t, log.String())
}

// contractNeeds lists what a case needs.
func contractNeeds(name string) contract.Need {
	for _, c := range contract.Cases() {
		if c.Name == name {
			return c.Needs
		}
	}
	return 0
}

// operations are the six, each with a request that is granted or refused by its
// handler alone.
var operations = []struct{ method, path, body string }{
	{"GET", "/api/v2/public/agents/me", ""},
	{"GET", "/api/v2/public/coaching/insights", ""},
	{"GET", "/api/v2/public/sentinels/firings", ""},
	{"POST", "/api/v2/public/leads", `{"name":"Ana Lima","email":"ana@example.com"}`},
	{"POST", "/api/v2/public/webhooks/subscribe", `{"target_url":"https://1.1.1.1/hooks","events":["sentinel.fired"]}`},
	{"DELETE", "/api/v2/public/webhooks/whs_01h455vb4pex5vsknk084sn02q", ""},
}

// everyOperation meets the answers that each operation has in common.
func everyOperation(t *testing.T, target contract.Target) {
	account := target.Fixture.Account(t, contract.Account{Name: "Every Operation", Live: true, Email: "eva@example.com", Agent: "Eva Every"})
	all := []string{"read:agent", "read:coaching", "read:sentinels", "write:webhooks", "write:leads"}
	key := contract.Key{Environment: "test", Scopes: all, RateLimit: 100}
	client := netip.MustParseAddr("127.0.0.1")
	send := func(t *testing.T, method, path, token, body string, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := target.Send(req, client)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		target.Observe(t, contract.Exchange{Case: t.Name(), Request: req, RequestBody: []byte(body), Response: resp, ResponseBody: got})
		if resp.StatusCode != want {
			t.Errorf("%s %s: %d, want %d: %s", method, path, resp.StatusCode, want, got)
		}
	}
	small := contract.Key{Environment: "test", Scopes: all, RateLimit: 1}
	unscoped := contract.Key{Environment: "test", RateLimit: 100}
	good := target.Fixture.Key(t, account, key)
	lacking := target.Fixture.Key(t, account, unscoped)
	for _, o := range operations {
		t.Run(o.method+" "+o.path, func(t *testing.T) {
			send(t, o.method, o.path, "", o.body, http.StatusUnauthorized)
			send(t, o.method, o.path, lacking, o.body, http.StatusForbidden)
			send(t, o.method, o.path, good, strings.Repeat(" ", 64<<10+1), http.StatusRequestEntityTooLarge)
			begin := o.method + " " + o.path + " HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer " + good + "\r\n"
			sendRaw(t, target, begin+"Content-Length: 100\r\n\r\n{", http.StatusRequestTimeout)
			sendRaw(t, target, begin+"Transfer-Encoding: chunked\r\n\r\nno chunk\r\n", http.StatusBadRequest)
			once := target.Fixture.Key(t, account, small)
			send(t, "GET", "/api/v2/public/agents/me", once, "", http.StatusOK)
			send(t, o.method, o.path, once, o.body, http.StatusTooManyRequests)
		})
	}
	// A key that the node has not met cannot be judged while the origin is away.
	unknown := target.Fixture.Key(t, account, key)
	end := target.Outage(t)
	defer end()
	for _, o := range operations {
		send(t, o.method, o.path, unknown, o.body, http.StatusInternalServerError)
	}
}

// sendRaw sends the text of a request, which net/http would not send, and nothing behind it.
func sendRaw(t *testing.T, target contract.Target, text string, want int) {
	t.Helper()
	probe, err := http.NewRequestWithContext(t.Context(), "GET", "/docs", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := target.Send(probe, netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	conn, err := net.Dial("tcp", resp.Request.URL.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	method, path, _ := strings.Cut(text, " ")
	path, _, _ = strings.Cut(path, " ")
	req := &http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{}}
	answer, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	target.Observe(t, contract.Exchange{Case: t.Name(), Request: req.WithContext(context.Background()), Response: answer, ResponseBody: got})
	if answer.StatusCode != want {
		t.Errorf("%s %s: %d, want %d: %s", method, path, answer.StatusCode, want, got)
	}
}

// reference gets what needs no key.
func reference(t *testing.T, target contract.Target) {
	for _, path := range []string{openapi.DocumentPath, openapi.DocsPath} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := target.Send(req, netip.MustParseAddr("127.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if path == openapi.DocumentPath && !bytes.Equal(got, openapi.Document()) {
			t.Error("the document served is not the one in the source")
		}
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
	}
}

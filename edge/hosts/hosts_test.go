package hosts

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestIsLocal(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:9090": true, "[::1]:9090": true, "[::1]": true, "10.0.0.1:80": true, "localhost": true,
		"LOCALHOST:9090": true, "localhost.:1": true, "dev.localhost": true,
		"": false, "evil.example": false, "evil.example:9090": false, "localhost.evil.example": false, "notlocalhost": false, "127.0.0.1.nip.io": false,
	} {
		if got := IsLocal(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

func TestGuard(t *testing.T) {
	guarded := guard("node-1.example", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		peer, host string
		status     int
	}{
		{"127.0.0.1:5", "127.0.0.1:9090", 200}, {"127.0.0.1:5", "evil.example", 421}, {"[::1]:5", "evil.example:9090", 421},
		{"[::ffff:127.0.0.1]:5", "evil.example", 421}, {"192.0.2.1:5", "node.example:9090", 200},
		{"127.0.1.1:5", "node-1.example:9090", 200}, {"127.0.1.1:5", "NODE-1:9090", 200}, {"127.0.1.1:5", "node-1.example.evil.example", 421}, {"127.0.1.1:5", "example", 421}, {"127.0.0.1:5", "", 421},
	} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.RemoteAddr, r.Host = c.peer, c.host
		w := httptest.NewRecorder()
		if guarded.ServeHTTP(w, r); w.Code != c.status {
			t.Errorf("%s as %s: %d, want %d", c.peer, c.host, w.Code, c.status)
		}
	}
}

func TestExposed(t *testing.T) {
	for urls, want := range map[string]bool{
		"nats://127.0.0.1:4222": false, "nats://localhost:4222": false, "127.0.0.1:4222": false, "nats://[::1]:4222": false,
		"tls://origin.example:4222": false, "tls://a:1, nats://127.0.0.1:2": false, "wss://a": false,
		"nats://10.0.0.1:4222": true, "origin.example:4222": true, "origin.example": true, "tls://a:1,nats://b:2": true, "ws://a": true, "nats://0.0.0.0:4222": true,
	} {
		if got := Exposed(urls); got != want {
			t.Errorf("%q: %v", urls, got)
		}
	}
}

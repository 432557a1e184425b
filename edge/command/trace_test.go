package command

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"partneredge/edge/closers"
	"partneredge/edge/service"
	"partneredge/edge/tracing"
	"partneredge/store/logtest"
	"partneredge/wasm/contract"
)

// otlpReceiver is a collector that keeps every span.
type otlpReceiver struct {
	url string

	mu    sync.Mutex
	raw   bytes.Buffer
	spans []tracedSpan
}

// tracedSpan is a span and the process that it is of.
type tracedSpan struct {
	*otlp.Span
	service string
}

func newReceiver(t *testing.T) *otlpReceiver {
	t.Helper()
	r := new(otlpReceiver)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var export collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil {
			t.Errorf("what was exported: %v", err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.raw.Write(body)
		for _, resource := range export.ResourceSpans {
			service := ""
			for _, a := range resource.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					r.spans = append(r.spans, tracedSpan{s, service})
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// find is the span of this name whose trace holds a span named with, nil when it
// has not come.
func (r *otlpReceiver) find(name, with string) *tracedSpan {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.spans {
		for i, s := range r.spans {
			if s.Name == name && other.Name == with && bytes.Equal(s.TraceId, other.TraceId) {
				return &r.spans[i]
			}
		}
	}
	return nil
}

// TestCollectorThatHangs holds that a collector that takes traces and never answers costs a
// stop a part of its time, so that the parts that end later have the rest.
func TestCollectorThatHangs(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }))
	defer hanging.Close()
	defer close(answer)
	log, started := new(logtest.Buffer), new(closers.Stack)
	flags := traceFlags{endpoint: hanging.URL, ratio: 1}
	tracer, err := flags.start(t.Context(), tracing.Config{Service: "edge-node", Log: slog.New(slog.NewTextHandler(log, nil))}, started)
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.Serve(t.Context(), "request", nil)
	span.End()
	stop, cancel := context.WithTimeout(t.Context(), service.StopTime)
	defer cancel()
	if err := started.Close(stop); err != nil || stop.Err() != nil {
		t.Errorf("the end of the tracer: %v; of the stop: %v", err, stop.Err())
	}
	if want := "traces are lost"; !strings.Contains(log.String(), want) {
		t.Errorf("logged %q, want %q", log, want)
	}
}

// TestTraces follows a partner's request through node, gate, handler and origin
// in one trace, and an event from the admin API to its delivery in another, which
// is linked; and holds that no span has a secret in it.
func TestTraces(t *testing.T) {
	t.Parallel()
	receiver := newReceiver(t)
	url, ca, deliveries := endpoint(t)
	dir := t.TempDir()
	d := startDevForTest(t, dir, func(c *devConfig) {
		c.webhookAllow = prefixes{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
		c.webhookCA = ca
		c.traces = traceFlags{endpoint: receiver.url, ratio: 1}
	})
	fixture := newAdminFixture(d)
	account := fixture.Account(t, contract.Account{Name: "Followed", Email: "eva@example.com", Agent: "Eva Event", Live: true})
	const partners = "0af7651916cd43dd8448eb211c80319c"
	key := fixture.Key(t, account, contract.Key{Environment: "live", Scopes: []string{"write:webhooks", "write:leads"}, RateLimit: 100})
	send := func(path, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", d.nodes[0].URL()+"/api/v2/public"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Traceparent", "00-"+partners+"-b7ad6b7169203331-01")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %d %s %v", path, resp.StatusCode, answer, err)
		}
		return string(answer)
	}
	subscribed := send("/webhooks/subscribe?note=in-the-query", `{"target_url":"`+url+`/live","events":["client.contacted"],"description":"in the description"}`)
	send("/leads", `{"name":"Sam Okafor","phone":"+1 512 555 0123"}`)
	fixture.call(t, "POST", "/accounts/"+account+"/contacts", map[string]string{"client_id": "client-of-mine", "channel": "phone"}, nil)
	receive(t, deliveries)

	// Each span, what it lies in, and the process that it is of.
	const admin = "POST /admin/v1/accounts/{id}/contacts"
	for _, want := range []struct{ name, parent, service, with string }{
		{"node request", "", "edge-node", "node's subscribe"},
		{"module gate", "node request", "edge-node", "node's subscribe"},
		{"origin key", "node request", "edge-node", "node's subscribe"},
		{"node's key", "origin key", "edge-origin", "node's subscribe"},
		{"module webhooks", "node request", "edge-node", "node's subscribe"},
		{"origin subscribe", "module webhooks", "edge-node", "node's subscribe"},
		{"node's subscribe", "origin subscribe", "edge-origin", "node's subscribe"},
		{"module leads", "node request", "edge-node", "module leads"},
		{admin, "", "edge-origin", admin},
		{"event client.contacted", "", "edge-origin", "deliver client.contacted"},
		{"deliver client.contacted", "event client.contacted", "edge-origin", "deliver client.contacted"},
	} {
		var got *tracedSpan
		await(t, "the span "+want.name, func() bool {
			got = receiver.find(want.name, want.with)
			return got != nil && (want.parent == "" || receiver.find(want.parent, want.with) != nil)
		})
		parent := ""
		if want.parent != "" {
			parent = string(receiver.find(want.parent, want.with).SpanId)
		}
		if string(got.ParentSpanId) != parent || got.service != want.service {
			t.Errorf("%s lies in %x of %s, want %s (%x) of %s", want.name, got.ParentSpanId, got.service, want.parent, parent, want.service)
		}
	}
	root := receiver.find("node request", "node's subscribe")
	if len(root.Links) != 1 || hex.EncodeToString(root.Links[0].TraceId) != partners || hex.EncodeToString(root.TraceId) == partners {
		t.Errorf("the partner's trace is not linked, or taken over: %v", root.Links)
	}
	event, made := receiver.find("event client.contacted", "deliver client.contacted"), receiver.find(admin, admin)
	if len(event.Links) != 1 || !bytes.Equal(event.Links[0].SpanId, made.SpanId) {
		t.Errorf("the event is not linked to the request that made it: %v", event.Links)
	}

	credentials, err := os.ReadFile(filepath.Join(dir, "nodes", "local", "node.creds"))
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(subscribed, `"secret":"`)
	secret, _, _ = strings.Cut(secret, `"`)
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	for _, never := range []string{
		key, d.account.Keys.Live, d.origin.Token(), secret, nkeySeed.FindString(string(credentials)), "Sam Okafor", "Okafor", "555 0123", "in-the-query",
		"in the description", "client-of-mine", "eva@example.com", "Followed", url, "127.0.0.1", "Bearer",
	} {
		if never == "" || bytes.Contains(receiver.raw.Bytes(), []byte(never)) {
			t.Errorf("a span holds %q", never)
		}
	}
}

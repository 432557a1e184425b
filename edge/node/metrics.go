package node

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"partneredge/edge/certificate"
	"partneredge/edge/node/replication"
	"partneredge/edge/wire"
	"partneredge/store/local"
	"partneredge/store/local/outbox"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/route"
	"partneredge/wasm/typeid"
)

// metrics holds the node's counters, in a registry of their own. A new metric is a
// field here that newMetrics sets, or a gauge of watch.
type metrics struct {
	registry *prometheus.Registry
	traffic  wire.TrafficCounter
	expiry   certificate.Expiry

	requests, originRequests, keys, views, leads, reports *prometheus.CounterVec
	requestTime, originTime                               *prometheus.HistogramVec
}

func newMetrics(c Config) *metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	auto := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Namespace: "edge", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return auto.NewHistogramVec(prometheus.HistogramOpts{Namespace: "edge", Name: name, Help: help,
			Buckets: []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10}}, labels)
	}
	m := &metrics{
		registry:       registry,
		requests:       counter("http_requests_total", "Requests answered, by handler (gate when none was reached) and status, 499 where the client was gone before.", "handler", "status"),
		requestTime:    histogram("http_request_duration_seconds", "Time to answer a request.", "handler"),
		originRequests: counter("origin_requests_total", "Requests to the origin, by verb and outcome.", "verb", "outcome"),
		originTime:     histogram("origin_request_duration_seconds", "Time of a request to the origin.", "verb"),
		keys:           counter("key_lookups_total", "Key look-ups: hit, miss, stale (held, but to be asked for), negative.", "outcome"),
		views:          counter("view_reads_total", "Reads of views: hit, miss, stale, page (further back than is held), outage.", "outcome"),
		leads:          counter("leads_total", "Leads accepted, committed at the origin, rejected by it.", "outcome"),
		reports:        counter("spending_total", "Keys whose spending was reported to the origin, of these repeated for want of an answer, shares taken in.", "what"),
	}
	for _, what := range []string{"reported", "repeated", "shares"} {
		m.reports.WithLabelValues(what) // there from the start, as 0
	}
	auto.NewGauge(prometheus.GaugeOpts{Namespace: "edge", Name: "node_info", Help: "What the node is; always 1.",
		ConstLabels: prometheus.Labels{"region": c.Region, "build": c.Version}}).Set(1)
	auto.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "edge", Name: "certificate_expiry_timestamp_seconds",
		Help: "When the certificate of the partner API expires, by ACME the first of all hosts', in seconds since 1970; 0 without TLS, and by ACME until a connection was served."},
		m.expiry.Seconds)
	return m
}

// replication returns the counters of the exchange with the origin.
func (m *metrics) replication() replication.Counters {
	add := func(c *prometheus.CounterVec) func(string, int) {
		return func(label string, n int) { c.WithLabelValues(label).Add(float64(n)) }
	}
	return replication.Counters{Keys: add(m.keys), Views: add(m.views), Leads: add(m.leads), Reports: add(m.reports)}
}

// service adds the gauge of whether the node is to get requests; outOfService says why not, ""
// if it is.
func (m *metrics) service(outOfService func() string) {
	promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "edge", Name: "node_in_service", Help: "1 while the partner API is served and its /healthz answers 200; else 0.",
	}, func() float64 { return bit(outOfService() == "") })
}

// bit returns 1 for true and 0 for false.
func bit(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// watch adds the gauges, which are read when they are collected.
func (m *metrics) watch(s *local.Store, connected func() bool, now func() time.Time) {
	gauge := func(name, help string, value func() float64) {
		promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{Namespace: "edge", Name: name, Help: help}, value)
	}
	gauge("origin_connected", "1 while there is a connection to the origin.", func() float64 { return bit(connected()) })
	gauge("node_time_seconds", "The node's clock, in seconds since 1970.", func() float64 { return float64(now().UnixMilli()) / 1000 })
	gauge("sync_change", "Number of the last change taken in.", func() float64 { return float64(s.Cursor().Seq) })
	gauge("sync_age_seconds", "Time since the node last knew every change; 0 before the first time.", func() float64 {
		complete := s.Cursor().CompleteAt
		if complete.IsZero() {
			return 0
		}
		return replication.Between(complete, now()).Seconds()
	})
	gauge("keys_held", "Key records held.", func() float64 { return float64(s.Keys.Len()) })
	gauge("keys_held_bytes", "Memory that key records take, about.", func() float64 { return float64(s.Keys.Bytes()) })
	gauge("views_held", "Views of accounts held.", func() float64 { return float64(s.Views.Len()) })
	gauge("views_held_bytes", "Memory that views take, about.", func() float64 { return float64(s.Views.Bytes()) })
	gauge("limits_in_memory", "1 while limits or records are kept in memory alone, since the disk takes nothing.", func() float64 { return bit(s.InMemory()) })
	gauge("lockouts", "Addresses that are locked out after failed authentications.", func() float64 {
		_, all := s.Lockouts.List(netip.Prefix{}, 0)
		return float64(all)
	})
	gauge("outbox_room_bytes", "How many bytes of leads the outbox still takes: of its own bound, or of its disk.", func() float64 { return float64(s.Outbox.Room()) })
	gauge("outbox_kept_bytes", "Bytes of leads that were handed over and are kept, to offer them again to an origin that was restored.", func() float64 { return float64(s.Outbox.Kept()) })
	gauge("outbox_unread_bytes", "Bytes of the outbox, and of leads that were set aside, that the disk does not read: leads are in them that the origin may not have.", func() float64 {
		return float64(s.Outbox.Unread())
	})
	gauge("outbox_oldest_seconds", "Age of the lead that has waited for the origin longest; 0 while none waits.", func() float64 {
		return oldest(s, now()).Seconds()
	})
	gauge("outbox_leads", "Leads that wait for the origin; those that it refused and had no room for are in edge_outbox_aside_bytes.", func() float64 {
		return float64(s.Outbox.Len())
	})
	gauge("outbox_aside_bytes", "Size of the files of leads that the origin refused and had no room for. They are offered again; until it takes them, they are on this node alone, and edge_outbox_leads does not count them.", func() float64 {
		return float64(s.Outbox.Aside())
	})
}

// oldest returns the age of the first lead of the outbox.
func oldest(s *local.Store, now time.Time) time.Duration {
	first, _ := s.Outbox.Pending(1, 0, nil) // one comes though the disk does not read those before it
	if len(first) == 0 {
		return 0
	}
	return max(0, now.Sub(cmp.Or(acceptedAt(first[0]), now)))
}

// acceptedAt returns when a lead came, as its body has it; the zero time if it is in neither
// the body nor the id. The id of a lead with an Idempotency-Key has midnight instead, so an id
// counts only where the body cannot be read.
func acceptedAt(lead outbox.Item) time.Time {
	var body struct {
		CreatedAt time.Time `json:"created_at"`
	}
	if err := json.Unmarshal(lead.Body, &body); err == nil && !body.CreatedAt.IsZero() {
		return body.CreatedAt
	}
	if milli, ok := typeid.UnixMilli(lead.ID); ok {
		return time.UnixMilli(milli)
	}
	return time.Time{}
}

// answered counts an answer.
func (m *metrics) answered(o *httpfront.Outcome) {
	handler := cmp.Or(o.Handler, route.Gate)
	m.requests.WithLabelValues(handler, strconv.Itoa(o.Status)).Inc()
	m.requestTime.WithLabelValues(handler).Observe(o.Took.Seconds())
	m.traffic.Add(o.Status, o.Took)
}

// originAnswered counts a request to the origin.
func (m *metrics) originAnswered(verb, outcome string, took time.Duration) {
	m.originRequests.WithLabelValues(verb, outcome).Inc()
	m.originTime.WithLabelValues(verb).Observe(took.Seconds())
}

// operators returns the handler of the metrics listener. obstacle returns why the
// node is not ready to serve, "" if it is.
func (m *metrics) operators(obstacle func() string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := obstacle(); why != "" {
			http.Error(w, "not ready: "+why, http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	return mux
}

package origin

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"partneredge/edge/origin/listener"
	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store/central/db"
)

// metrics of the origin, in seconds and counts.
type metrics struct {
	wire    *prometheus.HistogramVec
	admin   *prometheus.HistogramVec
	refused *prometheus.CounterVec

	refusals *prometheus.CounterVec
	unread   prometheus.Counter
}

func newMetrics(registry *prometheus.Registry) *metrics {
	auto := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Namespace: "edge_origin", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return auto.NewHistogramVec(prometheus.HistogramOpts{Namespace: "edge_origin", Name: name, Help: help,
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}}, labels)
	}
	m := &metrics{
		wire: histogram("node_request_seconds", "Time to answer a node's request, by verb and failure (none when answered).", "verb", "failure"),
		admin: histogram("admin_request_seconds",
			"Time to answer an admin request, by route (/console/ for all pages) and status; pages' event streams are left out.", "route", "status"),
		refused: counter("leads_refused_total", "Leads refused: quarantined, or rejected (left at the node, since the quarantine is full or the clock was put back).", "outcome"),
		refusals: counter("node_refusals_total",
			"Requests, leads and reports of a node that were refused, by reason; those of one that asks for what its partners' keys do not grant.", "node", "reason"),
		unread: counter("unread_keys_total",
			"Keys that nodes asked for and that could not be read, since their rows in the database are damaged.").WithLabelValues(),
	}
	m.refusedLeads(0, 0) // there from the start, as 0
	return m
}

// register adds what is read when metrics are asked for.
func (m *metrics) register(c Config, r *replication.Server, clock *clockJudge, front *listener.Server) {
	auto := promauto.With(c.Metrics)
	gauge := func(name, help string, value func() float64) {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "edge_origin", Name: name, Help: help}, value)
	}
	gauge("ready", "1 while the origin does its work, and /readyz answers 200; 0 while its database, a full disk or NATS keeps it from that.",
		func() float64 { return float64(db.Bit(front.Obstacle(context.Background()) == "")) })
	gauge("nodes_connected", "Nodes that have sent their status lately.", func() float64 { return float64(r.Presence().Connected()) })
	gauge("nodes_vouched", "Enrolled nodes whose requests are believed without the hash of a key, since they have never spoken wire version 2.",
		func() float64 { return float64(r.Presence().Vouched()) })
	gauge("spend_keys", "Keys whose spending is being merged.", func() float64 { return float64(r.MergedKeys()) })
	gauge("change", "Number of the last change pushed to the nodes; a node's edge_sync_change follows it.", func() float64 { return float64(r.LastChange()) })
	gauge("leads_quarantined", "Leads that wait in the quarantine for an operator, the same at each origin process; NaN when the database does not say.",
		func() float64 { return countedOrNaN(c.DB.CountQuarantined) })
	keys := func(name, help string, from, before time.Duration) { // from now
		gauge(name, help+", have no successor and were used in the last 90 days, the same at each origin process; NaN when the database does not say.",
			func() float64 {
				return countedOrNaN(func(ctx context.Context) (int, error) {
					now := c.DB.Now()
					return c.DB.CountExpiringKeys(ctx, now.Add(from), now.Add(before))
				})
			})
	}
	keys("keys_expiring", "Keys that expire within 14 days", 0, 14*24*time.Hour)
	keys("keys_ended", "Keys that expired in the last 7 days", -7*24*time.Hour, 0)
	gauge("retention_held", "1 while nothing is dropped for its age, since the clock is far ahead of the last round of retention; else 0.",
		func() float64 { return float64(db.Bit(clock.held.Load())) })
	auto.NewGauge(prometheus.GaugeOpts{Namespace: "edge_origin", Name: "info", Help: "What the origin is; always 1.",
		ConstLabels: prometheus.Labels{"build": c.Build, "database": c.DB.Kind()}}).Set(1)
	c.Metrics.MustRegister(newBacklog(c.DB), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// countedOrNaN returns what the database counts within two seconds, else NaN.
func countedOrNaN(count func(context.Context) (int, error)) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	n, err := count(ctx)
	if err != nil {
		return math.NaN()
	}
	return float64(n)
}

func (m *metrics) refusedLeads(quarantined, rejected int) {
	m.refused.WithLabelValues("quarantined").Add(float64(quarantined))
	m.refused.WithLabelValues("rejected").Add(float64(rejected))
}

func (m *metrics) refusal(node, reason string, times int) {
	m.refusals.WithLabelValues(node, reason).Add(float64(times))
}

func (m *metrics) request(verb string, failure wire.Failure, took time.Duration) {
	if failure == "" {
		failure = "none"
	}
	m.wire.WithLabelValues(verb, string(failure)).Observe(took.Seconds())
}

func (m *metrics) adminRequest(route string, status int, took time.Duration) {
	m.admin.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
}

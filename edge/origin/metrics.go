package origin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"partneredge/edge/wire"
)

// metrics of the origin, in seconds and counts.
type metrics struct {
	wire    *prometheus.HistogramVec
	admin   *prometheus.HistogramVec
	handler http.Handler
}

func newMetrics(c Config, f *fleet, d *desk, p *pump) *metrics {
	registry := c.Metrics
	buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}
	m := &metrics{
		wire: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "edge_origin_node_request_seconds", Buckets: buckets,
			Help: "Time to answer a node's request, by verb and failure (none when answered).",
		}, []string{"verb", "failure"}),
		admin: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "edge_origin_admin_request_seconds", Buckets: buckets,
			Help: "Time to answer an admin request, by route (/console/ for all pages) and status; pages' event streams are left out.",
		}, []string{"route", "status"}),
		handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	registry.MustRegister(m.wire, m.admin,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "edge_origin_nodes_connected", Help: "Nodes that have sent their status lately.",
		}, func() float64 { return float64(f.connectedCount()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "edge_origin_spend_keys", Help: "Keys whose spending is being merged.",
		}, func() float64 { return float64(d.Len()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "edge_origin_change", Help: "Number of the last change pushed to the nodes; a node's edge_sync_change follows it.",
		}, func() float64 { return float64(p.last.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "edge_origin_info", Help: "What the origin is; always 1.",
			ConstLabels: prometheus.Labels{"release": c.Release, "database": c.DB.Kind()},
		}, func() float64 { return 1 }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
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

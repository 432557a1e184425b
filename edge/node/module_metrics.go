package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"partneredge/host"
)

// moduleMetrics collects the numbers of the open modules. Its counters do not fall when a
// release is closed whose modules others have too: a rate would show that as a burst of calls.
type moduleMetrics struct {
	runtime *host.Runtime
	metrics []moduleMetric
	failed  *prometheus.Desc
}

type moduleMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(host.Stats) float64
}

func newModuleMetrics(r *host.Runtime) *moduleMetrics {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("edge_module_"+name, help, append([]string{"module", "digest"}, more...), nil)
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return &moduleMetrics{runtime: r, metrics: []moduleMetric{
		{desc("sandboxes", "Sandboxes, busy and idle."), gauge, func(s host.Stats) float64 { return float64(s.Sandboxes) }},
		{desc("sandboxes_idle", "Sandboxes that wait for a call."), gauge, func(s host.Stats) float64 { return float64(s.Idle) }},
		{desc("calls_waiting", "Calls that wait for a sandbox."), gauge, func(s host.Stats) float64 { return float64(s.Waiting) }},
		{desc("calls_total", "Calls answered."), counter, func(s host.Stats) float64 { return float64(s.Calls) }},
		{desc("sandboxes_created_total", "Sandboxes made."), counter, func(s host.Stats) float64 { return float64(s.Created) }},
		{desc("sandboxes_discarded_total", "Sandboxes given up because they could not be reset, or their call failed."), counter,
			func(s host.Stats) float64 { return float64(s.Discarded) }},
	}, failed: desc("calls_failed_total", "Calls not answered, by reason.", "reason")}
}

// Describe implements prometheus.Collector.
func (m *moduleMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, metric := range m.metrics {
		ch <- metric.desc
	}
	ch <- m.failed
}

// Collect implements prometheus.Collector. Modules of two releases that are the
// same are counted as one.
func (m *moduleMetrics) Collect(ch chan<- prometheus.Metric) {
	for id, stats := range m.runtime.Totals() {
		digest := id.Digest[:12]
		for _, metric := range m.metrics {
			ch <- prometheus.MustNewConstMetric(metric.desc, metric.kind, metric.value(stats), id.Name, digest)
		}
		for _, reason := range host.Reasons() { // also at 0: a rate needs what was before the first
			ch <- prometheus.MustNewConstMetric(m.failed, prometheus.CounterValue, float64(stats.Failed[reason]), id.Name, digest, string(reason))
		}
	}
}

// sandboxes counts the sandboxes of all modules.
func sandboxes(r *host.Runtime) (n int) {
	for _, stats := range r.Stats() {
		n += stats.Sandboxes
	}
	return n
}

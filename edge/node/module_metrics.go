package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"partneredge/host"
)

// moduleMetrics collects the numbers of the opened modules.
type moduleMetrics struct {
	runtime *host.Runtime

	sandboxes, idle, waiting, calls, failed, created, discarded *prometheus.Desc
}

func newModuleMetrics(r *host.Runtime) *moduleMetrics {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("edge_module_"+name, help, append([]string{"module", "digest"}, more...), nil)
	}
	return &moduleMetrics{
		runtime:   r,
		sandboxes: desc("sandboxes", "Sandboxes, busy and idle."),
		idle:      desc("sandboxes_idle", "Sandboxes that wait for a call."),
		waiting:   desc("calls_waiting", "Calls that wait for a sandbox."),
		calls:     desc("calls_total", "Calls answered."),
		failed:    desc("calls_failed_total", "Calls not answered, by reason.", "reason"),
		created:   desc("sandboxes_created_total", "Sandboxes made."),
		discarded: desc("sandboxes_discarded_total", "Sandboxes given up because they could not be reset, or their call failed."),
	}
}

// Describe implements prometheus.Collector.
func (m *moduleMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.sandboxes, m.idle, m.waiting, m.calls, m.failed, m.created, m.discarded} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *moduleMetrics) Collect(to chan<- prometheus.Metric) {
	for one, stats := range m.sums() {
		name, digest := one.name, one.digest
		gauge := func(d *prometheus.Desc, v int) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), name, digest)
		}
		counter := func(d *prometheus.Desc, v uint64, more ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append([]string{name, digest}, more...)...)
		}
		gauge(m.sandboxes, stats.Sandboxes)
		gauge(m.idle, stats.Idle)
		gauge(m.waiting, stats.Waiting)
		counter(m.calls, stats.Calls)
		counter(m.created, stats.Created)
		counter(m.discarded, stats.Discarded)
		for _, reason := range host.Reasons() { // also at 0: a rate needs what was before the first
			counter(m.failed, stats.Failed[reason], string(reason))
		}
	}
}

// moduleName names a module in metrics. Two releases may hold the same module.
type moduleName struct{ name, digest string }

func (m *moduleMetrics) sums() map[moduleName]host.Stats {
	sums := map[moduleName]host.Stats{}
	for module, stats := range m.runtime.Stats() {
		name := moduleName{module.Manifest().Name, module.Digest()[:12]}
		if sum, twice := sums[name]; twice {
			stats.Sandboxes += sum.Sandboxes
			stats.Idle += sum.Idle
			stats.Waiting += sum.Waiting
			stats.Calls += sum.Calls
			stats.Created += sum.Created
			stats.Discarded += sum.Discarded
			for reason, n := range sum.Failed {
				stats.Failed[reason] += n
			}
		}
		sums[name] = stats
	}
	return sums
}

// sandboxes counts the sandboxes of all modules.
func sandboxes(r *host.Runtime) (n int) {
	for _, stats := range r.Stats() {
		n += stats.Sandboxes
	}
	return n
}

package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"partneredge/edge/wire"
)

// releaseMetrics collects the share of requests that each release on the node answers.
type releaseMetrics struct {
	status func() (running, candidate *wire.ReleaseStatus)
	share  *prometheus.Desc
}

func newReleaseMetrics(status func() (running, candidate *wire.ReleaseStatus)) *releaseMetrics {
	return &releaseMetrics{status, prometheus.NewDesc("edge_node_release",
		"Share of the requests, 0 to 1, that a release on the node answers. The modules of the node's own disk have no version and no digest.",
		[]string{"version", "digest", "state"}, nil)}
}

// Describe implements prometheus.Collector.
func (m *releaseMetrics) Describe(to chan<- *prometheus.Desc) { to <- m.share }

// Collect implements prometheus.Collector.
func (m *releaseMetrics) Collect(to chan<- prometheus.Metric) {
	running, candidate := m.status()
	tried := 0
	if candidate != nil {
		state := string(candidate.State)
		if candidate.State == wire.ReleaseReady {
			tried, state = candidate.Percent, wire.StateRollingOut
		}
		m.send(to, candidate, state, tried)
	}
	state := wire.StateServing
	if running.Digest == "" {
		state = wire.StateOwnModules
	}
	m.send(to, running, state, 100-tried)
}

func (m *releaseMetrics) send(to chan<- prometheus.Metric, r *wire.ReleaseStatus, state string, percent int) {
	to <- prometheus.MustNewConstMetric(m.share, prometheus.GaugeValue, float64(percent)/100, r.Version, r.Digest, state)
}

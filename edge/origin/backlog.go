package origin

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partneredge/store/central"
)

// backlog collects what waits for the webhook sender, by one query each time that it
// is asked. It is the same at each origin process. Nothing is collected when the
// database does not answer within two seconds.
type backlog struct {
	db               *central.DB
	pending, overdue *prometheus.Desc
}

func newBacklog(db *central.DB) *backlog {
	return &backlog{
		db: db,
		pending: prometheus.NewDesc("edge_webhook_deliveries_pending",
			"Deliveries that wait, for a first or a next try, counted to 100 000.", nil, nil),
		overdue: prometheus.NewDesc("edge_webhook_overdue_seconds",
			"For how long a try has been due that has not ended, the longest of the first of each endpoint that does not fail, of 5 000. One that answers 2xx, but more slowly than events come, counts.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (b *backlog) Describe(ch chan<- *prometheus.Desc) { ch <- b.pending; ch <- b.overdue }

// Collect implements prometheus.Collector.
func (b *backlog) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	waiting, err := b.db.ReadBacklog(ctx)
	if err != nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(b.pending, prometheus.GaugeValue, float64(waiting.Pending))
	ch <- prometheus.MustNewConstMetric(b.overdue, prometheus.GaugeValue, waiting.Overdue.Seconds())
}

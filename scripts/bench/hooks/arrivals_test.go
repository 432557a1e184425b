package hooks

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// TestArrivalsCountFirst: a delivery that comes twice makes up for none that did not come, and
// waited until it came first.
func TestArrivalsCountFirst(t *testing.T) {
	written := map[string]time.Time{"evt_1": time.Unix(100, 0), "evt_2": time.Unix(100, 0), "evt_3": time.Unix(100, 0)}
	var a Arrivals
	for _, came := range []struct {
		event, endpoint string
		at              int64
	}{
		{"evt_1", "/1", 101}, {"evt_1", "/1", 150}, {"evt_1", "/1", 160}, {"evt_2", "/1", 102}, {"evt_2", "/2", 103},
	} {
		q := httptest.NewRequest(http.MethodPost, came.endpoint, http.NoBody)
		q.Header.Set("X-Svc-Event-Id", came.event)
		a.Add(q, time.Unix(came.at, 0))
	}
	if a.Count() != 3 || a.Again() != 2 || a.Missing(maps.Keys(written)) != 1 {
		t.Errorf("%d came, %d again, %d events missing, want 3, 2 and 1", a.Count(), a.Again(), a.Missing(maps.Keys(written)))
	}
	if got := a.Waits(written); !slices.Equal(got, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}) {
		t.Errorf("they waited %v", got)
	}
}

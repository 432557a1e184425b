package command

import (
	"maps"
	"slices"
	"testing"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/localwebhook"
)

// TestSamples holds the sample of each event against the OpenAPI document, which has
// exactly these events.
func TestSamples(t *testing.T) {
	check := newConformance(t)
	for _, kind := range adminapi.EventTypes() {
		m, known, err := localwebhook.Sample(kind, "acc_01kanq3v7yf4pss7c3kxq5d2aw", time.Now())
		if err != nil || !known {
			t.Fatalf("%s: %t, %v", kind, known, err)
		}
		hook := check.document.Events[kind]
		if hook == nil {
			t.Fatalf("the document has no event %s", kind)
		}
		if err := hook.Request.Content["application/json"].Schema.Check(m.Body); err != nil {
			t.Errorf("%s is not what the document draws: %v\n%s", kind, err, m.Body)
		}
	}
	want, got := slices.Sorted(maps.Keys(eventData)), slices.Sorted(slices.Values(adminapi.EventTypes()))
	if !slices.Equal(got, want) {
		t.Errorf("samples of %v, want %v", got, want)
	}
}

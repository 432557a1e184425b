package command

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/schema_validation"
)

// TestSamples holds the sample of each event against the OpenAPI document, which has
// exactly these events.
func TestSamples(t *testing.T) {
	check := newConformance(t)
	var names []string
	for _, s := range samples() {
		names = append(names, s.event)
		m, known, err := sampleMessage(s.event, "acc_01kanq3v7yf4pss7c3kxq5d2aw", time.Now())
		if err != nil || !known {
			t.Fatalf("%s: %t, %v", s.event, known, err)
		}
		hook := check.model.Webhooks.GetOrZero(s.event)
		if hook == nil {
			t.Fatalf("the document has no event %s", s.event)
		}
		schema := hook.Post.RequestBody.Content.GetOrZero("application/json").Schema.Schema()
		if ok, problems := schema_validation.NewSchemaValidator(config.WithFormatAssertions()).ValidateSchemaBytesWithVersion(schema, m.Body, 3.1); !ok {
			t.Errorf("%s is not what the document draws: %s\n%s", s.event, explain(problems), m.Body)
		}
	}
	if want := slices.Sorted(maps.Keys(eventData)); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("samples of %v, want %v", names, want)
	}
}

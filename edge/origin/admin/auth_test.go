package admin

import (
	"maps"
	"slices"
	"testing"

	"partneredge/edge/adminapi"
	"partneredge/edge/openapitest"
)

// served returns the pattern of every route.
func served() map[string]bool {
	patterns := make(map[string]bool)
	for _, r := range new(api).all() {
		patterns[r.pattern] = true
	}
	return patterns
}

// TestAdminsOnly: every pattern that only admins may use is one of a route.
func TestAdminsOnly(t *testing.T) {
	patterns := served()
	for _, pattern := range adminsOnly {
		if !patterns[pattern] {
			t.Errorf("no route %s", pattern)
		}
	}
}

// TestOpenAPINamesEveryRoute: openapi.json has what is served, and nothing else.
func TestOpenAPINamesEveryRoute(t *testing.T) {
	document, err := openapitest.Read(adminapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	patterns, documented := served(), make(map[string]bool)
	for _, o := range document.Operations {
		pattern := o.Method + " /admin/v1" + o.Path
		documented[pattern] = true
		if !patterns[pattern] {
			t.Errorf("%s is in openapi.json and not served", pattern)
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
		if !documented[pattern] {
			t.Errorf("%s is served and not in openapi.json", pattern)
		}
	}
}

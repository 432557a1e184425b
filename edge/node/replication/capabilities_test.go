package replication

import (
	"errors"
	"strings"
	"testing"

	"partneredge/wasm/abi"
)

// TestTokensOfNoKey: an id that no key can have gets no tokens, and none is kept, counted or
// reported.
func TestTokensOfNoKey(t *testing.T) {
	cfg, _ := emptyConfig(t)
	holdKey(t, cfg.Store, "key_1")
	r, err := newReporter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "\xff", strings.Repeat("k", 201), strings.Repeat("k", 90_000)} {
		if _, err := (limits{r}).Take(t.Context(), id, 100); !errors.Is(err, abi.ErrFrame) {
			t.Errorf("an id of %d bytes: %v", len(id), err)
		}
	}
	if n := cfg.Store.Buckets.Len() + len(r.keys) + len(r.urgent) + len(r.usage.counters); n != 0 {
		t.Errorf("%d of them are held", n)
	}
	if bucket, err := (limits{r}).Take(t.Context(), "key_1", 100); err != nil || !bucket.Allowed {
		t.Errorf("a key's: %+v, %v", bucket, err)
	}
}

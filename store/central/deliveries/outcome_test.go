package deliveries

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
)

// TestOutcomesAreWrittenByID: in a young database, of which PostgreSQL knows little, an
// outcome's delivery is looked up, and not sought among all that wait.
func TestOutcomesAreWrittenByID(t *testing.T) {
	d := openDB(t, centraltest.Postgres(t))
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	if err := d.WriteAlone(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		var ids, numbers []string
		for i := range 5000 {
			ids = append(ids, "'"+store.NewID("dlv", at.Add(time.Duration(i)*time.Millisecond))+"'")
			numbers = append(numbers, fmt.Sprint(i))
		}
		if _, err := tx.Exec(ctx, `INSERT INTO deliveries (id, event_id, subscription_id, state, attempts, tries_before, next_at, due_at, lease_owner, created_at, updated_at)
			SELECT id, 'evt_' || number, 'whs', 'pending', 0, 0, 0, 0, '', 0, 0
			FROM unnest(ARRAY[`+strings.Join(ids, ", ")+`], ARRAY[`+strings.Join(numbers, ", ")+`]) AS v(id, number)`); err != nil {
			return err
		}
		update := New(d, nil, slog.New(slog.DiscardHandler)).updateStates(1)
		plan, err := tx.Strings(ctx, `EXPLAIN (ANALYZE) WITH v(`+update.Columns+`) AS (SELECT * FROM unnest(ARRAY[`+strings.Join(ids[:50], ", ")+`],
			array_fill('delivered'::text, ARRAY[50]), array_fill(1::bigint, ARRAY[50]), array_fill(0::bigint, ARRAY[50]), array_fill(1::bigint, ARRAY[50]),
			array_fill(''::text, ARRAY[50]))) `+update.Statement)
		if text := strings.Join(plan, "\n"); err == nil && (!strings.Contains(text, "deliveries_pkey") || strings.Contains(text, "deliveries_written")) {
			t.Errorf("outcomes are not written by the deliveries' ids:\n%s", text)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestHeadersText: headers are written as encoding/json writes them.
func TestHeadersText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[a-zA-Z0-9 =,/-]*`), rapid.String(), rapid.SampledFrom([]string{"", `"`, `\`, "<", ">", "&", "\x00", "\x7f", "\u2028", "\xff"}))
		headers := rapid.MapOf(text, text).Draw(t, "headers")
		if got, want := headersText(headers), db.JSONText(headers); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
	if got, want := headersText(nil), db.JSONText(map[string]string(nil)); got != want {
		t.Errorf("of none: %s, want %s", got, want)
	}
}

package central

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"partneredge/store"
)

// TestLookupsByHashAreKept: SQLite prepares each of the two lookups of keys once, whatever
// they ask for.
func TestLookupsByHashAreKept(t *testing.T) {
	d := open(t, place{"sqlite", filepath.Join(t.TempDir(), "central.db")})
	a := newAccount(t, d, store.ModeLive)
	for range 3 {
		k := must(d.CreateKey(t.Context(), keyFor(a.ID)))(t)
		if got, _, err := d.KeyByHash(t.Context(), k.Hash); err != nil || got.ID != k.ID {
			t.Fatalf("%v, %v", got, err)
		}
		if got := must(d.KeysByHash(t.Context(), [][]byte{k.Hash[:]}))(t); got.Found[k.Hash].ID != k.ID {
			t.Fatalf("%v", got)
		}
	}
	// Of what package db keeps unexported, reflection reads the queries of its statements.
	kept := reflect.ValueOf(d.db).Elem().FieldByName("frequent").Elem().FieldByName("stmts").MapKeys()
	for _, query := range kept {
		if !strings.Contains(query.String(), "JOIN keys") {
			t.Errorf("kept is %s", query)
		}
	}
	if len(kept) != 2 {
		t.Errorf("%d statements are kept", len(kept))
	}
}

// BenchmarkKeyByHash looks up a key as a node's question does:
//
//	go test -run - -bench KeyByHash ./store/central
func BenchmarkKeyByHash(b *testing.B) {
	d := open(b, place{"sqlite", filepath.Join(b.TempDir(), "central.db")})
	k := must(d.CreateKey(b.Context(), keyFor(newAccount(b, d, store.ModeLive).ID)))(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := d.KeyByHash(b.Context(), k.Hash); err != nil {
			b.Fatal(err)
		}
	}
}

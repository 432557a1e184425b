package leads

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/local"
	"partneredge/store/local/outbox"
	"partneredge/wasm/abi"
)

func openOutbox(t *testing.T) Outbox {
	t.Helper()
	state, err := local.Open(local.Config{Dir: filepath.Join(t.TempDir(), "state")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := state.Close(); err != nil {
			t.Error(err)
		}
	})
	return NewOutbox(Config{Store: state, KeyHash: idAsHash, Now: time.Now, Count: func(string, int) {}})
}

// idAsHash is the hash of a key in tests.
func idAsHash(p abi.Principal) (string, error) { return p.KeyID, nil }

func TestTestLeadsNeverReachTheOutbox(t *testing.T) {
	o := openOutbox(t)
	lead := abi.Lead{ID: "lead_1", FirstName: "x", Email: "x@example.com"}
	err := o.AppendLead(t.Context(), abi.Principal{KeyID: "key_1", AccountID: "acc_1", Environment: abi.EnvTest}, lead.Append(nil))
	if err == nil || o.cfg.Store.Outbox.Len() != 0 {
		t.Errorf("error %v, %d wait", err, o.cfg.Store.Outbox.Len())
	}
}

// The origin receives each lead as it was encoded for the outbox, within the
// message that package wire describes.
func TestLeadsAreEncodedOnce(t *testing.T) {
	o := openOutbox(t)
	p := abi.Principal{AccountID: "acc_1", KeyID: "key_1", Environment: abi.EnvLive}
	for _, id := range []string{"lead_1", "lead_2"} {
		lead := abi.Lead{ID: id, FirstName: "<Zoë & \"co\">", Email: "x@example.com", ConsentStatus: "none", Captured: 1, Created: 2}
		if err := o.AppendLead(t.Context(), p, lead.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	items, err := o.cfg.Store.Outbox.Pending(10, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	var raw wire.LeadsRequest
	var leads []store.AcceptedLead
	for _, it := range items {
		var lead store.AcceptedLead
		if err := json.Unmarshal(it.Body, &lead); err != nil {
			t.Fatal(err)
		}
		if string(lead.KeyHash) != "key_1" {
			t.Errorf("the lead's key has the hash %q", lead.KeyHash)
		}
		raw.Leads, leads = append(raw.Leads, it.Body), append(leads, lead)
	}
	got, err := wire.Encode(&raw)
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(leads)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"v":%d,"leads":%s}`, wire.Version, list)
	if string(got) != want || len(items) != 2 {
		t.Errorf("%d leads: got %s, want %s", len(items), got, want)
	}
}

func TestOnceID(t *testing.T) {
	once := abi.Once{Key: "a", Digest: "d"}
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	id := onceID("key_1", &once, at)
	if got := onceID("key_1", &once, at.Add(24*time.Hour-1)); got != id {
		t.Errorf("%s later that day, %s before", got, id)
	}
	seen := map[string]bool{id: true}
	for _, other := range []string{
		onceID("key_1", &once, at.Add(24*time.Hour)),
		onceID("key_2", &once, at),
		onceID("key_1", &abi.Once{Key: "b", Digest: "d"}, at),
		onceID("key_1", &abi.Once{Key: "a", Digest: "e"}, at),
		onceID("key_1", &abi.Once{Key: "ad"}, at),
	} {
		if seen[other] {
			t.Errorf("%s names two requests", other)
		}
		seen[other] = true
	}
}

// A lead whose idempotency record was lost with the process is the one that waits
// already when it is sent again.
func TestOnceAfterItsRecordWasLost(t *testing.T) {
	o := openOutbox(t)
	p := abi.Principal{KeyID: "key_1", AccountID: "acc_1", Environment: abi.EnvLive}
	once := abi.Once{Key: "a", Digest: "d", Lead: abi.Lead{ID: "lead_x", FirstName: "x", Phone: "5550100", ConsentStatus: "none", Created: 1}}
	lost := once.Lead
	lost.ID, lost.Created = onceID(p.KeyID, &once, time.Now()), 2
	if err := o.AppendLead(t.Context(), p, lost.Append(nil)); err != nil {
		t.Fatal(err)
	}
	kept, err := o.LeadOnce(t.Context(), p, &once)
	if err != nil || kept.Outcome != abi.New || kept.ID != lost.ID || o.cfg.Store.Outbox.Len() != 1 {
		t.Errorf("%+v, %v, %d wait", kept, err, o.cfg.Store.Outbox.Len())
	}
	p.Environment = abi.EnvTest
	once.Key = "b"
	if kept, err := o.LeadOnce(t.Context(), p, &once); err != nil || kept.Outcome != abi.New || o.cfg.Store.Outbox.Len() != 1 {
		t.Errorf("a test key's: %+v, %v, %d wait", kept, err, o.cfg.Store.Outbox.Len())
	}
}

// TestLongDigestsAreKeptShort: whatever a module gives as a request's digest, what is kept of it
// is short, and tells the same request from another. Records of an earlier program, which has
// kept digests whole, tell it as well.
func TestLongDigestsAreKeptShort(t *testing.T) {
	o := openOutbox(t)
	p := abi.Principal{KeyID: "key_1", AccountID: "acc_1", Environment: abi.EnvTest}
	for _, size := range []int{0, 16, 64, 65, 90_000} {
		digest := strings.Repeat("d", size)
		whole := func() (local.IdempotencyRecord, error) {
			return local.IdempotencyRecord{Digest: digest, ID: "lead_1"}, nil
		}
		if _, _, err := o.cfg.Store.Idempotency.Do(t.Context(), local.IdempotencyName("key_1", fmt.Sprint("before ", size)), "", whole); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			key, digest string
			want        abi.Outcome
		}{
			{"now ", digest, abi.New}, {"now ", digest, abi.Repeat}, {"now ", digest + "e", abi.Conflict},
			{"before ", digest, abi.Repeat}, {"before ", digest + "e", abi.Conflict},
		} {
			kept, err := o.LeadOnce(t.Context(), p, &abi.Once{Key: fmt.Sprint(tt.key, size), Digest: tt.digest})
			if err != nil || kept.Outcome != tt.want {
				t.Errorf("a digest of %d bytes, %s: %+v, %v, want outcome %d", len(tt.digest), tt.key, kept, err, tt.want)
			}
		}
		rec, repeated, err := o.cfg.Store.Idempotency.Do(t.Context(), local.IdempotencyName("key_1", fmt.Sprint("now ", size)), "", whole)
		if err != nil || !repeated || len(rec.Digest) > 64 {
			t.Errorf("of a digest of %d bytes %d are kept, %v", size, len(rec.Digest), err)
		}
	}
}

// TestLeadsAreCountedOnce: a lead counts as accepted, committed or rejected once that is on
// disk, and not where the disk failed.
func TestLeadsAreCountedOnce(t *testing.T) {
	o := openOutbox(t)
	counted := map[string]int{}
	o.cfg.Count = func(outcome string, n int) { counted[outcome] += n }
	o.cfg.Log = slog.New(slog.DiscardHandler)
	h := NewHandoff(o.cfg)
	p := abi.Principal{AccountID: "acc_1", KeyID: "key_1", Environment: abi.EnvLive}
	accept := func(id string) error {
		lead := abi.Lead{ID: id, FirstName: "x", Email: "x@example.com", ConsentStatus: "none", Captured: 1, Created: 2}
		return o.AppendLead(t.Context(), p, lead.Append(nil))
	}
	settle := func(reply wire.LeadsReply) error {
		sent := map[string]outbox.Item{}
		for _, id := range []string{"lead_1", "lead_2"} {
			sent[id] = outbox.Item{ID: id, Body: []byte("{}")}
		}
		return h.settle(t.Context(), &reply, sent)
	}
	steps := func() []error {
		return []error{
			accept("lead_1"), accept("lead_2"),
			settle(wire.LeadsReply{Committed: []string{"lead_1", "lead_9"}}), // the last was not sent
			settle(wire.LeadsReply{Rejected: map[string]string{"lead_2": "why", "lead_9": "why"}}),
		}
	}
	want := map[string]int{"accepted": 2, "committed": 1, "rejected": 1}
	if err := errors.Join(steps()...); err != nil || fmt.Sprint(counted) != fmt.Sprint(want) {
		t.Errorf("counted %v, %v, want %v", counted, err, want)
	}
	if err := o.cfg.Store.Outbox.Close(); err != nil {
		t.Fatal(err)
	}
	for i, err := range steps() {
		if err == nil {
			t.Errorf("step %d is done by a closed outbox", i)
		}
	}
	if fmt.Sprint(counted) != fmt.Sprint(want) {
		t.Errorf("counted %v with what failed, want %v", counted, want)
	}
}

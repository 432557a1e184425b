package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
	"partneredge/store/durable"
	"partneredge/store/local"
	"partneredge/store/local/outbox"
)

const (
	clients    = 64
	rounds     = 5
	roundTakes = 700 * time.Millisecond
	// recordHead is how many bytes a record of an outbox has besides its id and body.
	recordHead = 14
	// laidOut is how many bytes of zeros the disk's own rate is measured in, again and
	// again from the start. No more than these few go to the disk beforehand.
	laidOut = 16 << 20
)

// lead is an outbox's item as a node makes it.
var lead = []byte(`{"id":"lead_01kanq7vd4e1v9k3g5s7x9z2bc","account_id":"acc_01kanq7vd4e1v9k3g5s7x9z2bc","key_id":"key_01kanq7vd4e1v9k3g5s7x9z2bc",` +
	`"environment":"live","first_name":"Sam","last_name":"Okafor","email":"sam.okafor@example.com","phone":"+1 512 555 0123","consent_status":"express_written",` +
	`"consent_text":"I agree to be called and texted about homes.","outreach_allowed":true,"created_at":"2026-03-02T14:00:00Z"}`)

// leadID returns an id that is as long as a lead's. It is made digit by digit, since fmt
// takes as long for it as an outbox for the lead.
func leadID(client, nth int) string {
	id := []byte("lead_00000000000000000000000000")
	count := func(at, n int) {
		for ; n > 0; n, at = n/10, at-1 {
			id[at] += byte(n % 10)
		}
	}
	count(len("lead_")+12, client)
	count(len(id)-1, nth)
	return string(id)
}

// accept measures how many leads a second one node keeps, on disk, for 64
// clients at once: what its outbox takes, beside what the disk allows when 64 such
// records share an fdatasync. The two take turns, so that what else the machine
// does hits both. Over HTTP the processors are the limit: that is printed too.
func (b *bench) accept(ctx context.Context) error {
	var kept, synced []float64
	for round := range rounds {
		dir := filepath.Join(b.Dir, fmt.Sprint("accept", round))
		n, err := appendFor(ctx, dir)
		if err != nil {
			return err
		}
		kept = append(kept, n)
		if n, err = syncFor(filepath.Join(dir, "sync")); err != nil {
			return err
		}
		synced = append(synced, n)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	b.Printf("one node's outbox keeps %.0f leads a second; the disk allows %.0f", kept, synced)

	_, key, err := b.region.Admin.Key(ctx, b.region.Account, unlimited)
	if err != nil {
		return err
	}
	b.Printf("over HTTP, modules and load on the same processors, it answers %.0f a second", b.postFor(ctx, key))
	b.Figure("lead_accept_per_s_share", harness.Ratio(kept, synced), "ratio")
	return nil
}

// appendFor returns how many leads a second a new store in dir keeps.
func appendFor(ctx context.Context, dir string) (float64, error) {
	store, err := local.Open(local.Config{Dir: dir})
	if err != nil {
		return 0, err
	}
	defer store.Close()
	var n atomic.Int64
	appending, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for c := range clients {
		appending.Go(func() error {
			for i := 0; time.Since(began) < roundTakes; i++ {
				if err := store.Outbox.Append(ctx, outbox.Item{ID: leadID(c, i), Body: lead}); err != nil {
					return err
				}
				n.Add(1)
			}
			return nil
		})
	}
	err = appending.Wait()
	return float64(n.Load()) / time.Since(began).Seconds(), err
}

// syncFor returns how many records a second the disk takes, 64 to a write and an
// fdatasync, in a file of zeros that are on the disk beforehand, so that no sync has
// more to write than the records. An outbox writes into zeros too.
func syncFor(path string) (_ float64, err error) {
	f, err := durable.Disk{}.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(make([]byte, laidOut), 0); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	group := bytes.Repeat([]byte{'x'}, clients*(recordHead+len(leadID(0, 0))+len(lead)))
	n := 0
	began := time.Now()
	for at := int64(0); time.Since(began) < roundTakes; at += int64(len(group)) {
		if at+int64(len(group)) > laidOut {
			at = 0
		}
		if _, err := f.WriteAt(group, at); err != nil {
			return 0, err
		}
		if err := f.SyncData(); err != nil {
			return 0, err
		}
		n += clients
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// postFor returns leads a second that one node answers with 201.
func (b *bench) postFor(ctx context.Context, key string) float64 {
	var n atomic.Int64
	var posting sync.WaitGroup
	began := time.Now()
	for range clients {
		posting.Go(func() {
			for time.Since(began) < 2*time.Second {
				if b.post(ctx, b.region.Nodes[0].URL(), key, "", "sam@example.com") == http.StatusCreated {
					n.Add(1)
				}
			}
		})
	}
	posting.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}

// post sends a lead; status is 0 when there is no answer.
func (b *bench) post(ctx context.Context, url, key, once, email string) (status int) {
	header := fleet.Bearer(key)
	if once != "" {
		header.Set("Idempotency-Key", once)
	}
	status, _, _ = fleet.Send(ctx, b.region.Client, url+fleet.API+"leads", header, strings.NewReader(`{"name":"Sam Okafor","email":"`+email+`"}`))
	return status
}

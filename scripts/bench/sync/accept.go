package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/store/local"
	"partneredge/store/local/outbox"
)

const (
	clients    = 64
	rounds     = 4
	roundTakes = 700 * time.Millisecond
)

// accept measures how many leads a second one node keeps, on disk, for 64
// clients at once: what its outbox takes, beside what the disk allows when 64
// records share an fdatasync. The two take turns, so that what else the machine
// does hits both. Over HTTP the processors are the limit: that is printed too.
func (b *bench) accept(ctx context.Context) error {
	store, err := local.Open(local.Config{Dir: filepath.Join(b.Dir, "accept")})
	if err != nil {
		return err
	}
	defer store.Close()
	body := []byte(`{"id":"lead_01kanq7vd4e1v9k3g5s7x9z2bc","account_id":"acc_01kanq7vd4e1v9k3g5s7x9z2bc","key_id":"key_01kanq7vd4e1v9k3g5s7x9z2bc",` +
		`"environment":"live","first_name":"Sam","last_name":"Okafor","email":"sam.okafor@example.com","phone":"+1 512 555 0123","consent_status":"express_written",` +
		`"consent_text":"I agree to be called and texted about homes.","outreach_allowed":true,"created_at":"2026-03-02T14:00:00Z"}`)
	var kept, synced float64
	for range rounds {
		n, err := appendFor(ctx, store.Outbox, body)
		if err != nil {
			return err
		}
		kept += n
		if n, err = syncFor(filepath.Join(b.Dir, "sync"), make([]byte, clients*(len(body)+45))); err != nil {
			return err
		}
		synced += n
	}
	b.Printf("one node's outbox keeps %.0f leads a second; the disk allows %.0f", kept/rounds, synced/rounds)

	_, key, err := b.region.admin.Key(ctx, b.region.account, unlimited)
	if err != nil {
		return err
	}
	b.Printf("over HTTP, modules and load on the same processors, it answers %.0f a second", b.postFor(ctx, key))
	b.Figure("lead_accept_per_s_share", kept/synced, "of the disk's")
	return nil
}

// appendFor returns leads a second.
func appendFor(ctx context.Context, o *outbox.Outbox, body []byte) (float64, error) {
	var n atomic.Int64
	appending, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for c := range clients {
		appending.Go(func() error {
			for i := 0; time.Since(began) < roundTakes; i++ {
				id := fmt.Sprintf("lead_%d_%d_%d", began.UnixNano(), c, i)
				if err := o.Append(ctx, outbox.Item{ID: id, Body: body}); err != nil {
					return err
				}
				n.Add(1)
			}
			return nil
		})
	}
	err := appending.Wait()
	return float64(n.Load()) / time.Since(began).Seconds(), err
}

// syncFor returns records a second, 64 to a write and an fdatasync.
func syncFor(path string, records []byte) (float64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer os.Remove(path)
	defer f.Close()
	n := 0
	began := time.Now()
	for time.Since(began) < roundTakes {
		if _, err := f.Write(records); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
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
				if b.post(ctx, b.region.nodes[0].URL(), key, "", "sam@example.com") == http.StatusCreated {
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
	header := bearer(key)
	if once != "" {
		header.Set("Idempotency-Key", once)
	}
	status, _, _ = b.region.send(ctx, url+api+"leads", header, strings.NewReader(`{"name":"Sam Okafor","email":"`+email+`"}`))
	return status
}

package webhook

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"partneredge/store"
)

// Whatever comes back: its status counts, its first 4 KiB are kept as text, and
// neither its length nor its pace holds the sender for long.
func TestAnswers(t *testing.T) {
	drip := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(status)
			for q.Context().Err() == nil {
				if _, err := w.Write([]byte("x")); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				sleep(q.Context(), 50*time.Millisecond)
			}
		}
	}
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		status int
		state  store.State
		check  func(*testing.T, store.Attempt)
	}{
		{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, store.StateDelivered, nil},
		{"299", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) }, 299, store.StateDelivered, nil},
		{"300", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(300) }, 300, store.StateDead, nil},
		{"http.StatusMovedPermanently", func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "/elsewhere", http.StatusMovedPermanently)
		}, 301, store.StateDead, func(t *testing.T, a store.Attempt) {
			if a.Error == "" {
				t.Error("no word of the redirect")
			}
		}},
		{"304", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, 304, store.StateDead, nil},
		{"http.StatusPermanentRedirect", func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "/elsewhere", http.StatusPermanentRedirect)
		}, 308, store.StateDead, nil},
		{"400", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad", 400) }, 400, store.StateDead, nil},
		{"410", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) }, 410, store.StateDead, nil},
		{"503", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, 503, store.StateDead, nil},
		{"103 then 200", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(200) }, 200, store.StateDelivered, nil},
		{"huge", func(w http.ResponseWriter, _ *http.Request) {
			for range 64 {
				if _, err := w.Write(bytes.Repeat([]byte("y"), 1<<20)); err != nil {
					return
				}
			}
		}, 200, store.StateDelivered, func(t *testing.T, a store.Attempt) {
			if a.Excerpt != strings.Repeat("y", ExcerptMost) {
				t.Errorf("%d bytes kept", len(a.Excerpt))
			}
		}},
		{"byte by byte", drip(200), 200, store.StateDelivered, func(t *testing.T, a store.Attempt) {
			if a.Excerpt == "" {
				t.Error("nothing is kept")
			}
		}},
		{"not text", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("a\x00b\xffc")) }, 200, store.StateDelivered, func(t *testing.T, a store.Attempt) {
			if !strings.HasPrefix(a.Excerpt, "a") || !strings.HasSuffix(a.Excerpt, "c") {
				t.Errorf("kept %q", a.Excerpt)
			}
		}},
		{"great headers", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Great", strings.Repeat("z", 1<<20))
		}, 0, store.StateDead, nil},
		{"cut off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, store.StateDead, nil},
		{"never", func(_ http.ResponseWriter, q *http.Request) { gone(q) }, 0, store.StateDead, func(t *testing.T, a store.Attempt) {
			if a.Error != "no answer within 15s" {
				t.Errorf("error %q", a.Error)
			}
		}},
	} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(test.name+" "+proto, func(t *testing.T) {
				t.Parallel()
				endpoint := newReceiver(t, func(w http.ResponseWriter, q *http.Request) {
					if q.Proto != proto {
						t.Errorf("came by %s", q.Proto)
					}
					test.answer(w, q)
				})
				if proto == "HTTP/1.1" {
					endpoint.TLS.NextProtos = []string{"http/1.1"}
				}
				c := Config{CAFile: caFile(t, endpoint), Schedule: []time.Duration{}, Timeout: 4 * time.Minute, bodyTime: time.Minute}
				switch test.name {
				case "never":
					c.Timeout = 15 * time.Second
				case "byte by byte":
					c.bodyTime = 15 * time.Second
				}
				f := newFixture(t, t.TempDir()+"/origin.db", c)
				f.subscribe(endpoint.URL)
				began := time.Now()
				d := f.state(f.fire(), test.state)
				if took := time.Since(began); took > 2*time.Minute { // half of the time-out
					t.Errorf("took %v", took)
				}
				a := f.tries(d)[0]
				if a.Status != test.status {
					t.Errorf("status %d, want %d: %s", a.Status, test.status, a.Error)
				}
				if test.check != nil {
					test.check(t, a)
				}
				if n := endpoint.count(); n != 1 {
					t.Errorf("%d requests", n)
				}
			})
		}
	}
}

// An endpoint whose certificate nobody known signed is not spoken to.
func TestUnknownCertificate(t *testing.T) {
	endpoint := newReceiver(t, nil)
	f := newFixture(t, t.TempDir()+"/origin.db", Config{Schedule: []time.Duration{}})
	f.subscribe(endpoint.URL)
	d := f.state(f.fire(), store.StateDead)
	if a := f.tries(d)[0]; !strings.Contains(a.Error, "certificate") || endpoint.count() != 0 {
		t.Errorf("error %q, %d requests", a.Error, endpoint.count())
	}
}

// gone waits until the sender has gone, and does not answer then: the answer might still be read,
// since the connection says that it ends before it has ended.
func gone(q *http.Request) {
	<-q.Context().Done()
	panic(http.ErrAbortHandler)
}

// Stop waits for what is under way as long as it may, and gives the rest back.
func TestStop(t *testing.T) {
	eachStore(t, func(t *testing.T, url string) {
		release := make(chan struct{})
		endpoint := newReceiver(t, func(_ http.ResponseWriter, q *http.Request) {
			select {
			case <-release:
			case <-q.Context().Done():
				gone(q)
			}
		})
		db := openDB(t, url)
		a, err := db.CreateAccount(t.Context(), store.Account{Name: "A", Mode: store.ModeLive, Agent: store.Agent{Email: "a@example.com", FullName: "A"}})
		must(t, err)
		must(t, db.AddSubscription(t.Context(), subscription(a.ID, endpoint.URL)))
		f := &fixture{t: t, db: db, account: a.ID}
		c := Config{CAFile: caFile(t, endpoint), PerEndpoint: 2, HoldMost: time.Millisecond, endLeasesFor: time.Minute}
		s := startSender(t, db, c)
		var events []string
		for range 5 {
			events = append(events, f.fire())
		}
		until(t, "two under way", func() bool { return endpoint.count() == 2 })
		short, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, s.Stop(short))
		must(t, s.Stop(t.Context())) // again
		for _, event := range events {
			if d := f.state(event, store.StatePending); d.Attempts != 0 {
				t.Errorf("%d attempts of what was cut short", d.Attempts)
			}
		}
		close(release)
		again := startSender(t, db, c) // under another name where there can be several
		for _, event := range events {
			f.state(event, store.StateDelivered)
		}
		must(t, again.Stop(t.Context()))
	})
}

func TestConfig(t *testing.T) {
	if _, err := Start(t.Context(), Config{}); err == nil {
		t.Error("started without a store")
	}
	db := openDB(t, t.TempDir()+"/origin.db")
	for _, file := range []string{t.TempDir() + "/none.pem", "config.go"} {
		if _, err := Start(t.Context(), Config{Store: db, Guard: NewGuard(GuardConfig{}), CAFile: file}); err == nil {
			t.Errorf("started with CA file %s", file)
		}
	}
}

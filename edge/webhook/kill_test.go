package webhook

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/deliveries"
)

// soon is a schedule that a test has time for.
var soon = []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 600 * time.Millisecond}

// childEnv makes the test binary an origin that is killed: "URL CAFILE ACCOUNT".
const childEnv = "WEBHOOK_TEST_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := runChild(strings.Split(spec, " ")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild delivers, and writes events until its input ends, printing the id of
// each that was accepted.
func runChild(spec []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // the parent is gone, or wants no more events
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		cancel()
	}()
	db, err := central.Open(context.Background(), central.Config{URL: spec[0]})
	if err != nil {
		return err
	}
	sender, err := Start(context.Background(), Config{
		Store: db, Guard: NewGuard(GuardConfig{Allow: loopback}), CAFile: spec[1], Schedule: soon,
		Timeout: 10 * time.Second, Lease: 20 * time.Second, // a busy machine answers late, and what the dead leased has to be waited for
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	wakeOnCommit(db, sender)
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for ctx.Err() == nil {
				_, event, err := db.AddFiring(ctx, store.Firing{AccountID: spec[2], Name: "n", Data: []byte("{}"), Action: "a"})
				if err == nil {
					fmt.Println(event.ID) // unbuffered: what is printed was accepted
				}
			}
		})
	}
	writers.Wait()
	stop, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	if err := sender.Stop(stop); err != nil {
		return err
	}
	return db.Close()
}

// child is a process of runChild.
type child struct {
	cmd      *exec.Cmd
	accepted chan string // closed at its end
	stdin    interface{ Close() error }
}

func startChild(t *testing.T, url, ca, account string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{url, ca, account}, " "))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	c := &child{cmd: cmd, accepted: make(chan string, 1<<20), stdin: stdin}
	go func() {
		defer close(c.accepted)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if len(lines.Text()) == len("evt_")+26 {
				c.accepted <- lines.Text()
			}
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return c
}

// Every event that was accepted is delivered, through kills at any point. What
// arrives twice was under way at a kill: it has the same event id and another
// delivery id.
func TestNothingIsLostByKills(t *testing.T) {
	eachStore(t, func(t *testing.T, url string) {
		endpoint := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
			if rand.IntN(50) == 0 {
				w.WriteHeader(500) // so that there are retries to lose as well
			}
		})
		ca := caFile(t, endpoint)
		db := openDB(t, url)
		a, err := db.CreateAccount(t.Context(), store.Account{Name: "A", Mode: store.ModeLive, Agent: store.Agent{Email: "a@example.com", FullName: "A"}})
		must(t, err)
		subs := []store.Subscription{subscription(a.ID, endpoint.URL+"/0"), subscription(a.ID, endpoint.URL+"/1")}
		for _, s := range subs {
			must(t, db.AddSubscription(t.Context(), s))
		}
		must(t, db.Close())

		accepted := map[string]bool{}
		const kills = 8
		for range kills {
			c := startChild(t, url, ca, a.ID)
			// Killed after it has accepted some number of events, whatever it is
			// doing by then.
			for n := 1 + rand.IntN(150); n > 0; n-- {
				event, ok := <-c.accepted
				if !ok {
					t.Fatal("the process ended")
				}
				accepted[event] = true
			}
			must(t, c.cmd.Process.Kill())
			for event := range c.accepted {
				accepted[event] = true
			}
			_ = c.cmd.Wait()
		}
		if endpoint.count() == 0 {
			t.Error("nothing was delivered between the kills")
		}
		last := startChild(t, url, ca, a.ID)
		_ = last.stdin.Close() // no more events
		for event := range last.accepted {
			accepted[event] = true
		}
		must(t, last.cmd.Wait())

		db = openDB(t, url)
		startSender(t, db, Config{CAFile: ca, Schedule: soon})
		arrived := func() (missing int) {
			got := map[string]bool{}
			for _, g := range endpoint.all() {
				got[g.header.Get("X-Svc-Event-Id")] = true
			}
			for event := range accepted {
				if !got[event] {
					missing++
				}
			}
			return missing
		}
		until(t, "all arrived", func() bool { return arrived() == 0 })
		for _, s := range subs {
			until(t, "the queue is empty", func() bool {
				d, _, err := db.Deliveries(t.Context(), deliveries.Filter{SubscriptionID: s.ID, State: store.StatePending}, store.Page{})
				must(t, err)
				return len(d) == 0
			})
		}

		// Each delivery was tried once, but for what was under way at a kill or
		// was answered 500; and each try had its own id.
		ids, twice := map[string]bool{}, 0
		tries := map[string]int{}
		for _, g := range endpoint.all() {
			verified(t, g, subs[0].Secret, subs[1].Secret)
			id := g.header.Get("X-Svc-Delivery-Id")
			if ids[id] {
				t.Errorf("delivery id %s came twice", id)
			}
			ids[id] = true
			tries[g.header.Get("X-Svc-Event-Id")]++
		}
		for _, n := range tries {
			twice += max(0, n-len(subs))
		}
		if most := kills*2*8*4 + len(ids)/10; twice > most {
			t.Errorf("%d tries more than deliveries, want at most %d", twice, most)
		}
		t.Logf("%d events accepted, %d tries, %d of them again", len(accepted), len(ids), twice)
	})
}

// Several senders on one PostgreSQL share the work, and no delivery is made
// twice while all live.
func TestSeveralSenders(t *testing.T) {
	url := centraltest.Postgres(t)
	answer := make(chan struct{})
	endpoint := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-answer })
	ca := caFile(t, endpoint)
	db := openDB(t, url)
	a, err := db.CreateAccount(t.Context(), store.Account{Name: "A", Mode: store.ModeLive, Agent: store.Agent{Email: "a@example.com", FullName: "A"}})
	must(t, err)
	const subs, events = 10, 60
	var ids []string
	for range subs {
		s := subscription(a.ID, endpoint.URL)
		must(t, db.AddSubscription(t.Context(), s))
		ids = append(ids, s.ID)
	}
	// All is written before anyone sends, so that all of it has to be claimed.
	for range events {
		fire(t, db, a.ID)
	}
	var senders []*Sender
	for range 3 {
		other := openDB(t, url)
		senders = append(senders, startSender(t, other, Config{CAFile: ca, Window: 8, SlowAfter: time.Minute, Timeout: time.Minute}))
	}
	for _, s := range senders { // before any has worked all off
		until(t, "claimed by each", func() bool { return s.Stats().Held > 0 })
	}
	close(answer)
	until(t, "all delivered", func() bool { return endpoint.count() >= subs*events })
	for _, s := range senders {
		until(t, "something delivered by each", func() bool { return s.Stats().Delivered > 0 })
	}
	// What a process writes that has no sender of its own, others find.
	fire(t, db, a.ID)
	until(t, "one more", func() bool { return endpoint.count() >= subs*(events+1) })

	// A try that two senders made would have been recorded for one of them only: the other
	// has another id. A second try after one that failed is recorded too.
	recorded := map[string]bool{}
	for _, id := range ids {
		var all []store.Delivery
		until(t, "each has its outcome", func() bool {
			var err error
			all, _, err = db.Deliveries(t.Context(), deliveries.Filter{SubscriptionID: id}, store.Page{Limit: 2 * events})
			must(t, err)
			return !slices.ContainsFunc(all, func(d store.Delivery) bool { return d.State == store.StatePending })
		})
		if len(all) != events+1 {
			t.Errorf("%d deliveries of a subscription, want %d", len(all), events+1)
		}
		tries, err := db.AttemptsOf(t.Context(), all)
		must(t, err)
		for _, d := range all {
			if d.State != store.StateDelivered {
				t.Errorf("delivery %s is %s", d.ID, d.State)
			}
			for _, try := range tries[d.ID] {
				recorded[try.ID] = true
			}
		}
	}
	for _, g := range endpoint.all() {
		id := g.header.Get("X-Svc-Delivery-Id")
		if !recorded[id] {
			t.Errorf("the try %s was made and is not recorded, or came twice", id)
		}
		delete(recorded, id)
	}
}

// What a dead process had leased is taken up when the lease ends.
func TestLeaseOfTheDead(t *testing.T) {
	url := centraltest.Postgres(t)
	endpoint := newReceiver(t, nil)
	db := openDB(t, url)
	a, err := db.CreateAccount(t.Context(), store.Account{Name: "A", Mode: store.ModeLive, Agent: store.Agent{Email: "a@example.com", FullName: "A"}})
	must(t, err)
	s := subscription(a.ID, endpoint.URL)
	must(t, db.AddSubscription(t.Context(), s))
	fire(t, db, a.ID)
	claimed := time.Now()
	claims, _, err := db.ClaimDeliveries(t.Context(), deliveries.ClaimRequest{Owner: "dead", Subscriptions: []string{s.ID}, Each: 10, Lease: 5 * time.Second})
	must(t, err)
	if len(claims) != 1 {
		t.Fatalf("%d claims", len(claims))
	}
	startSender(t, openDB(t, url), Config{CAFile: caFile(t, endpoint)})
	until(t, "delivery", func() bool { return endpoint.count() == 1 })
	if at := endpoint.all()[0].at; at.Sub(claimed) < 3*time.Second {
		t.Errorf("taken from a holder that may be alive, after %v", at.Sub(claimed))
	}
}

// TestLeasesThatEndedInMemory has a sender reach a delivery whose lease has ended by its own
// clock: it claims the delivery anew, unless another process has claimed it by then.
func TestLeasesThatEndedInMemory(t *testing.T) {
	for _, owner := range []string{"this", "another"} {
		t.Run(owner, func(t *testing.T) {
			url := centraltest.Postgres(t)
			endpoint := newReceiver(t, nil)
			db := openDB(t, url)
			a, err := db.CreateAccount(t.Context(), store.Account{Name: "A", Mode: store.ModeLive, Agent: store.Agent{Email: "a@example.com", FullName: "A"}})
			must(t, err)
			sub := subscription(a.ID, endpoint.URL)
			must(t, db.AddSubscription(t.Context(), sub))
			fire(t, db, a.ID)
			claims, _, err := db.ClaimDeliveries(t.Context(), deliveries.ClaimRequest{Owner: owner, Subscriptions: []string{sub.ID}, Each: 1, Lease: time.Hour})
			must(t, err)
			if len(claims) != 1 {
				t.Fatalf("%d claims", len(claims))
			}
			s := startSender(t, openDB(t, url), Config{Owner: "this", newOwner: true, CAFile: caFile(t, endpoint)})
			s.mu.Lock()
			now := time.Now()
			s.hold(claims[0], now.Add(-s.c.Lease), s.c.Store.EndpointsVersion(), now)
			s.schedule(now)
			s.mu.Unlock()
			if owner == "this" {
				until(t, "delivery", func() bool { return endpoint.count() == 1 })
				return
			}
			until(t, "nothing in memory", func() bool { return s.Stats().Held == 0 })
			left, err := db.EndLeases(t.Context(), owner)
			must(t, err)
			if left != 1 {
				t.Errorf("another process has %d leases, want 1", left)
			}
		})
	}
}

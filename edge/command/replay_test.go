package command

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"partneredge/edge/adminapi"
	"partneredge/edge/wire"
)

// tap is a connection that hears and may say everything, as the origin may.
func tap(t *testing.T, originDir, url string) *nats.Conn {
	t.Helper()
	seed, err := os.ReadFile(filepath.Join(originDir, "nats", "account.seed"))
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		t.Fatal(err)
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	id, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.NewUserClaims(id).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(url, nats.UserJWT(func() (string, error) { return token, nil }, user.Sign), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// TestReplayedMessages records all that two nodes and the origin say to each
// other, and says it again, shuffled and each message three times: TCP brings
// no message twice or out of order, but resending, reconnecting and queues of
// several origins do. No lead is there twice, no counter moves, nothing that was
// revoked comes back.
func TestReplayedMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := startDevForTest(t, dir, func(c *devConfig) { c.regions = names{"eu", "us"} })
	admin := &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()}
	account := makeAccount(t, admin)
	conn := tap(t, filepath.Join(dir, "origin"), d.origin.NATSURL())
	var mu sync.Mutex
	var heard []*nats.Msg
	recorder, err := conn.Subscribe(">", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, m)
	})
	if err != nil {
		t.Fatal(err)
	}

	const spent, perMinute = 150, 600
	sending, counted, doomed := makeKey(t, admin, account, 10_000), makeKey(t, admin, account, perMinute), makeKey(t, admin, account, 10_000)
	at := func(i int) *regional {
		return &regional{t: t, ready: nodeReady{BaseURL: d.nodes[i].URL(), MetricsURL: d.nodes[i].MetricsURL() + "/metrics"}}
	}
	nodes := []*regional{at(0), at(1)}
	var sent []string
	for _, n := range nodes {
		await(t, "the key to be known", func() bool { return n.get(doomed.Plaintext) == http.StatusOK })
		sent = append(sent, n.accepted(sending.Plaintext, 20)...)
	}
	spending := time.Now()
	for _, n := range nodes {
		for range spent {
			n.get(counted.Plaintext)
		}
	}
	if err := admin.Call(t.Context(), "POST", "/keys/"+doomed.Key.ID+"/revoke", nil, nil); err != nil {
		t.Fatal(err)
	}
	refused := func(n *regional) bool { return n.get(doomed.Plaintext) == http.StatusUnauthorized }
	for _, n := range nodes {
		await(t, "the key to be refused", func() bool { return refused(n) })
	}
	looks := 0 // each spends one
	left := func(n *regional) int {
		t.Helper()
		looks++
		header := n.answer(counted.Plaintext).Header
		remaining, err := strconv.Atoi(header.Get("x-ratelimit-remaining"))
		if err != nil {
			t.Fatal(err)
		}
		return remaining
	}
	began := time.Now()
	before := perMinute
	for _, n := range nodes {
		asked := 0 // here, to look
		await(t, "the node to know what both spent", func() bool {
			now, regained := left(n), int(time.Since(spending).Seconds()*perMinute/60)
			asked++
			before = min(before, now)
			return now <= perMinute-2*spent-asked+regained+spent/3
		})
	}
	await(t, "the leads to arrive", func() bool { return len(allLeads(t, admin, account)) == len(sent) })
	if err := recorder.Unsubscribe(); err != nil {
		t.Fatal(err)
	}

	mu.Lock()
	again := slices.Concat(heard, heard, heard)
	mu.Unlock()
	seed := rand.Uint64()
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
	said := map[string]int{}
	for _, m := range again {
		if err := conn.PublishMsg(&nats.Msg{Subject: m.Subject, Reply: m.Reply, Data: m.Data}); err != nil {
			t.Fatal(err)
		}
		said[m.Subject[strings.LastIndex(m.Subject, ".")+1:]]++
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"changes", wire.VerbLeads, wire.VerbSpend, wire.VerbShare} {
		if said[verb] == 0 {
			t.Errorf("no message of the kind %s was replayed: %v", verb, said)
		}
	}

	// A lead that is sent, and heard of, after all of that: all of it has been
	// taken in.
	for _, n := range nodes {
		sent = append(sent, n.accepted(sending.Plaintext, 1)...)
	}
	await(t, "the last leads to arrive", func() bool { return len(allLeads(t, admin, account)) >= len(sent) })
	if got := sorted(allLeads(t, admin, account)); !slices.Equal(got, sorted(sent)) {
		t.Errorf("seed %d: %d leads at the origin, %d were accepted", seed, len(got), len(sent))
	}
	for _, n := range nodes {
		for range 5 {
			if !refused(n) {
				t.Fatalf("seed %d: a revoked key is served again", seed)
			}
		}
		// Meanwhile the bucket has regained what time gives, and lost what was
		// asked here. Counting anything twice, or forgetting it, moves it by spent.
		now, regained := left(n), int(time.Since(began).Seconds()*perMinute/60)
		if now < before-min(spent/3+looks, spent-1) || now > before+regained+spent/3 {
			t.Errorf("seed %d: %d requests remain, %d before, %d regained", seed, now, before, regained)
		}
	}
	if t.Failed() {
		t.Log("replayed:", said)
	}
}

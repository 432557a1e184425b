//go:build linux

package command

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/store/central/centraltest"
	"partneredge/store/grant"
)

var (
	tortureTime = flag.Duration("torture", 10*time.Second, "how long TestTorture goes on")
	tortureSeed = flag.Uint64("torture-seed", 0, "seed of TestTorture's faults; 0: a random one")
)

// TestTorture lets random faults come over an origin, its database and three nodes
// while leads are sent and keys revoked. After each round everything is mended, and
// every lead that was acknowledged has to be at the origin once, no revoked key may
// be served by a node in step, and no rollout may be done on a dead node.
func TestTorture(t *testing.T) {
	t.Parallel()
	seed := cmp.Or(*tortureSeed, rand.Uint64())
	t.Logf("seed %d: the same faults come with -torture-seed %d", seed, seed)
	t.Run("sqlite", func(t *testing.T) {
		newTorture(t, seed, nil).run(*tortureTime / 2)
	})
	t.Run("postgres", func(t *testing.T) {
		newTorture(t, seed, centraltest.NewServer(t, t.TempDir())).run(*tortureTime / 2)
	})
}

// torture is an installation under faults, and what it has promised.
type torture struct {
	*site
	rng      *rand.Rand
	database *centraltest.Server // nil: SQLite
	victims  []*victim
	deck     []fault           // that are yet to come before any comes again
	held     string            // a key that is good all the time
	releases map[string]string // ids by version
	rollout  string            // the id of the last one; "": none

	mu       sync.Mutex
	acked    map[string]string // names of acknowledged leads by id
	sent     int
	atOrigin map[string]string // names of leads at the origin by id
	revoked  []mintedKey
	faults   map[string]int // how often each came
}

func newTorture(t *testing.T, seed uint64, database *centraltest.Server) *torture {
	var args []string
	if database != nil {
		args = []string{"--database", database.URL()}
	}
	w := &torture{
		site: startSite(t, args...), database: database, rng: rand.New(rand.NewPCG(seed, 0)),
		acked: map[string]string{}, atOrigin: map[string]string{}, faults: map[string]int{}, releases: map[string]string{},
	}
	trusted := w.pushReleases()
	w.victims = []*victim{w.processVictim("eu", trusted), w.diskVictim("us", trusted, nil).victim, w.diskVictim("ap", trusted, nil).victim}
	w.held = w.key().Plaintext
	return w
}

// toldBy bounds the rounds until something was acknowledged and revoked: on a busy machine the
// first may pass without either.
const toldBy = 10

// run tortures for a time, and then on until there is something to tell.
func (w *torture) run(most time.Duration) {
	rounds := 0
	for end := time.Now().Add(most); time.Now().Before(end) || rounds < toldBy && !w.tells(); rounds++ {
		if w.t.Failed() {
			break
		}
		w.round()
	}
	w.t.Logf("%d rounds, %d leads acknowledged of %d sent, %d keys revoked, faults: %v",
		rounds, len(w.acked), w.sent, len(w.revoked), w.faults)
	if !w.t.Failed() && !w.tells() {
		w.t.Error("nothing was acknowledged or revoked: too little to tell")
	}
}

// tells reports whether there is anything to hold the installation to.
func (w *torture) tells() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked) > 0 && len(w.revoked) > 0
}

// round breaks some things while leads are sent, mends them, and looks.
func (w *torture) round() {
	doomed := w.key()
	for _, v := range w.victims {
		await(w.t, v.region+" to know a new key", func() bool { return v.get(doomed.Plaintext) == http.StatusOK })
	}
	stop := w.load()
	var names []string
	var mends []func()
	for _, f := range w.draw() {
		names = append(names, f.name)
		w.faults[f.name]++
		mends = append(mends, f.begin(w))
		w.pause(600 * time.Millisecond)
	}
	w.tryRevoke(doomed)
	w.pause(time.Second)
	w.rng.Shuffle(len(mends), func(i, j int) { mends[i], mends[j] = mends[j], mends[i] })
	for _, mend := range mends {
		mend()
	}
	for _, v := range w.victims {
		await(w.t, v.region+" to start after "+strings.Join(names, ", "), v.up)
	}
	w.pause(300 * time.Millisecond)
	stop()
	w.verify(doomed, strings.Join(names, ", "))
}

// pause lets a fault last.
func (w *torture) pause(most time.Duration) { time.Sleep(time.Duration(w.rng.Int64N(int64(most)))) }

// draw returns some faults of different targets, so that one does not mend another.
func (w *torture) draw() (drawn []fault) {
	want := 1 + w.rng.IntN(3)
	for range 2 { // the deck may end meanwhile
		if len(w.deck) == 0 {
			w.deck = w.allFaults()
			w.rng.Shuffle(len(w.deck), func(i, j int) { w.deck[i], w.deck[j] = w.deck[j], w.deck[i] })
		}
		w.deck = slices.DeleteFunc(w.deck, func(f fault) bool {
			fits := len(drawn) < want && !slices.ContainsFunc(drawn, func(d fault) bool { return d.target == f.target || d.alone || f.alone })
			if fits {
				drawn = append(drawn, f)
			}
			return fits
		})
	}
	return drawn
}

// load sends leads to every node until stop is called, which waits for the last
// answer.
func (w *torture) load() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for _, v := range w.victims {
		clients.Go(func() {
			for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				w.send(v)
			}
		})
	}
	return func() { cancel(); clients.Wait() }
}

// send sends a lead with a name of its own, and notes it if it is acknowledged.
func (w *torture) send(v *victim) {
	w.mu.Lock()
	w.sent++
	name := fmt.Sprintf("Lead Number%07d", w.sent)
	w.mu.Unlock()
	url := v.baseURL()
	if url == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/v2/public/leads",
		strings.NewReader(fmt.Sprintf(`{"name":%q,"phone":"+1 555 010 0000"}`, name)))
	if err != nil {
		w.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+w.held)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	var answer struct{ Lead struct{ ID string } }
	switch err := json.NewDecoder(resp.Body).Decode(&answer); {
	case err != nil: // cut off
	case resp.StatusCode == http.StatusCreated:
		w.mu.Lock()
		w.acked[answer.Lead.ID] = name
		w.mu.Unlock()
	case resp.StatusCode != http.StatusInternalServerError:
		w.t.Errorf("%s answered a good lead with %d", v.region, resp.StatusCode)
	}
}

// tryRevoke revokes a key if the origin can just be asked.
func (w *torture) tryRevoke(k mintedKey) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
	defer cancel()
	_ = w.admin.Call(ctx, http.MethodPost, "/keys/"+k.Key.ID+"/revoke", nil, nil)
}

// verify holds the installation, with everything mended, to what it promised.
func (w *torture) verify(doomed mintedKey, faults string) {
	w.t.Helper()
	w.rolloutEnds(faults)
	w.revokeFor(doomed)
	// Changes reach a node in order: one that has the last has all.
	marker := w.key()
	for _, v := range w.victims {
		await(w.t, v.region+" to serve again after "+faults, func() bool { return v.get(marker.Plaintext) == http.StatusOK })
	}
	w.revoke(marker)
	for _, v := range w.victims {
		await(w.t, v.region+" to be in step after "+faults, func() bool { return v.get(marker.Plaintext) == http.StatusUnauthorized })
		for _, k := range w.revoked[max(0, len(w.revoked)-20):] {
			if status := v.judge(k.Plaintext); status != http.StatusUnauthorized {
				w.t.Errorf("%s, in step after %s, answers a revoked key with %d", v.region, faults, status)
			}
		}
		if status := v.judge(w.held); status != http.StatusOK {
			w.t.Errorf("%s, after %s, answers a good key with %d", v.region, faults, status)
		}
		await(w.t, v.region+" to hand over its leads after "+faults, func() bool { return v.metric("edge_outbox_leads") == 0 })
		v.inspect(faults)
	}
	w.releaseLeads(faults)
	w.readLeads(faults)
	var lost []string
	for id, name := range w.acked {
		if w.atOrigin[id] != name {
			lost = append(lost, id)
		}
	}
	if len(lost) > 0 {
		w.t.Errorf("after %s: %d of %d acknowledged leads are lost, such as %s", faults, len(lost), len(w.acked), slices.Min(lost))
	}
}

// revokeFor revokes a key for good, whatever became of an earlier try.
func (w *torture) revokeFor(k mintedKey) {
	w.t.Helper()
	w.revoke(k)
	w.revoked = append(w.revoked, k)
}

// releaseLeads does what an operator does about leads that a node took while its clock
// was more than a day off: the origin keeps them in the quarantine, and no others.
func (w *torture) releaseLeads(faults string) {
	w.t.Helper()
	for {
		var page struct{ Items []adminapi.QuarantinedLead }
		if err := w.admin.Call(w.t.Context(), http.MethodGet, "/quarantine?limit=200", nil, &page); err != nil {
			w.t.Fatal(err)
		}
		for _, q := range page.Items {
			if !strings.HasPrefix(q.Reason, string(grant.WrongTime)) {
				w.t.Errorf("after %s: a lead is in the quarantine: %s", faults, q.Reason)
			}
			if err := w.admin.Call(w.t.Context(), http.MethodPost, "/quarantine/"+q.ID+"/release", nil, nil); err != nil {
				w.t.Fatalf("after %s: release a lead of the quarantine (%s): %v", faults, q.Reason, err)
			}
		}
		if len(page.Items) == 0 {
			return
		}
	}
}

// readLeads reads the leads that came to the origin since it last did, and holds
// that none came twice.
func (w *torture) readLeads(faults string) {
	w.t.Helper()
	names := map[string]bool{}
	for _, name := range w.atOrigin {
		names[name] = true
	}
	for cursor := ""; ; {
		var page struct {
			Items []struct {
				ID        string
				FirstName string `json:"first_name"`
				LastName  string `json:"last_name"`
			}
			NextCursor *string `json:"next_cursor"`
		}
		if err := w.admin.Call(w.t.Context(), http.MethodGet, "/accounts/"+w.account+"/leads?limit=200&cursor="+cursor, nil, &page); err != nil {
			w.t.Fatal(err)
		}
		news := false
		for _, l := range page.Items {
			name := l.FirstName + " " + l.LastName
			if w.atOrigin[l.ID] != "" {
				continue
			}
			if names[name] {
				w.t.Errorf("after %s: %s is at the origin twice", faults, name)
			}
			w.atOrigin[l.ID], names[name], news = name, true, true
		}
		if page.NextCursor == nil || !news {
			return
		}
		cursor = *page.NextCursor
	}
}

// pushReleases brings two releases to the origin and returns the file of the key
// that signed them.
func (w *torture) pushReleases() (trusted string) {
	w.t.Helper()
	modules, _ := testFiles.get(w.t)
	private, public := filepath.Join(w.dir, "release.key"), filepath.Join(w.dir, "release.pub")
	edge(w.t, "release", "keygen", "--no-password", "--key", private, "--pub", public)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		edge(w.t, "release", "push", "--modules", modules, "--version", version, "--key", private, "--data", w.originDir)
	}
	var page struct {
		Items []struct{ ID, Version string }
	}
	if err := w.admin.Call(w.t.Context(), http.MethodGet, "/releases", nil, &page); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range page.Items {
		w.releases[r.Version] = r.ID
	}
	return public
}

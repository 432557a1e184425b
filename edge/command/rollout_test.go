package command

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/node"
	"partneredge/edge/output"
	"partneredge/edge/release/releasetest"
	"partneredge/store/durable"
)

// siege asks all nodes for as long as it lasts.
type siege struct {
	stop    context.CancelFunc
	clients sync.WaitGroup
	asked   atomic.Int64
	failed  atomic.Int64
}

func besiege(t *testing.T, d *devProcess) *siege {
	t.Helper()
	admin := &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()}
	var made mintedKey
	if err := admin.Call(t.Context(), "POST", "/accounts/"+d.account.AccountID+"/keys", map[string]any{
		"environment": "live", "scopes": []string{"read:agent"}, "rate_limit": 1_000_000,
	}, &made); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &siege{stop: stop}
	for _, n := range d.nodes {
		s.clients.Go(func() {
			again := time.NewTicker(20 * time.Millisecond) // the nodes need the processors too
			defer again.Stop()
			for ctx.Err() == nil {
				s.ask(ctx, n, made.Plaintext)
				<-again.C
			}
		})
	}
	t.Cleanup(s.end)
	return s
}

func (s *siege) ask(ctx context.Context, n *node.Node, key string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+"/api/v2/public/agents/me", nil)
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if ctx.Err() != nil {
		return
	}
	s.asked.Add(1)
	if err != nil {
		s.failed.Add(1)
		return
	}
	// Read to its end, the connection is good for the next request.
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); ctx.Err() == nil && (err != nil || resp.StatusCode != http.StatusOK) {
		s.failed.Add(1)
	}
}

// end stops asking. It may be called twice.
func (s *siege) end() {
	s.stop()
	s.clients.Wait()
}

// rolled is a rollout as the admin API shows it.
type rolled struct {
	ID, State, Reason string
	Serving           int
}

// promote rolls a release out and waits for how that ends.
func promote(t *testing.T, d *devProcess, release string, plan map[string]any) (ended rolled) {
	t.Helper()
	admin := &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()}
	var begun rolled
	if err := admin.Call(t.Context(), "POST", "/releases/"+release+"/promote", plan, &begun); err != nil {
		t.Fatal(err)
	}
	return ends(t, d, begun.ID)
}

func ends(t *testing.T, d *devProcess, rollout string) (ended rolled) {
	t.Helper()
	await(t, "the rollout to end", func() bool {
		admin := &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()}
		ended = rolled{}
		return admin.Call(t.Context(), "GET", "/rollouts/"+rollout, nil, &ended) == nil && (ended.State == "done" || ended.State == "rolled_back")
	})
	return ended
}

// nodesRun waits until every node runs a release; "" is its own modules.
func nodesRun(t *testing.T, d *devProcess, digest string) {
	t.Helper()
	allRun(t, &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()}, digest)
}

// allRun waits until every node of an origin that is not revoked says that it runs a
// release and no other.
func allRun(t *testing.T, admin *adminapi.Client, digest string) {
	t.Helper()
	await(t, "every node to run "+digest, func() bool {
		some := false
		for n, err := range adminapi.All[adminapi.Node](t.Context(), admin, "/nodes", nil) {
			if err != nil {
				t.Fatal(err)
			}
			if !n.RevokedAt.IsZero() {
				continue
			}
			some = true
			if !n.Connected || n.Status == nil || n.Status.Running == nil || n.Status.Running.Digest != digest || n.Status.Candidate != nil {
				return false
			}
		}
		return some
	})
}

// TestRollouts brings good and bad releases to three nodes that answer requests
// all the time: a good one arrives and no request fails, one that traps is gone by
// itself, one by a thief changes nothing, and a restart changes nothing either.
func TestRollouts(t *testing.T) {
	t.Parallel()
	ours, thief := newSigner(t), newSigner(t)
	dir := t.TempDir()
	trusting := func(c *devConfig) {
		c.regions = names{"eu", "us", "ap"}
		c.releases.keyFile = ours.keys
		c.Log = slog.New(slog.DiscardHandler)
	}
	d := startDevForTest(t, dir, trusting)
	atOnce := []string{"--stages", "100", "--pause", "0s", "--canary", "0", "--wait"}
	fast := map[string]any{"stages": []int{34, 100}, "pause_seconds": 0, "canary_percent": 20}
	s := besiege(t, d)

	good, digest := ours.ship(t, d, "1.0.0", nil)
	if ended := promote(t, d, good, fast); ended.State != "done" {
		t.Fatalf("a good release: %+v", ended)
	}
	nodesRun(t, d, digest)
	ours.ship(t, d, "1.1.0", nil)
	command := func(want int, args ...string) string {
		t.Helper()
		var out, said strings.Builder
		args = append([]string{"release"}, append(args, "--admin", d.origin.AdminURL(), "--token-file", filepath.Join(dir, "origin", "admin.token"))...)
		if code := Main(t.Context(), "test", args, &out, &said); code != want {
			t.Fatalf("edge %v: exit code %d, want %d\n%s%s", args, code, want, out.String(), said.String())
		}
		return out.String() + said.String()
	}
	for _, tt := range []struct {
		args []string
		want []string
		code int
	}{
		{[]string{"rollout", "1.1.0", "--stages", "34,100", "--pause", "0s", "--canary", "20", "--wait"}, []string{"done", "3 of 3 nodes", "release 1.1.0: stage"}, 0},
		{[]string{"status"}, []string{"done", "1.1.0", "serving", "ap"}, 0},
		{[]string{"rollback", "--wait"}, []string{"rolled back", "by an operator", "0 of 3 nodes"}, 0},
		{[]string{"rollback"}, []string{"release 1.1.0 was rolled back already (by an operator): its nodes run release 1.0.0", "hint: to go back further", "edge release rollout VERSION"}, 1},
		{[]string{"status", "--json"}, []string{`"state":"rolled_back"`}, 0},
		{[]string{"rollout", "1.1.0", "--stages", "34,100", "--pause", "1h"}, []string{"1.1.0", "stage 34%"}, 0},
		{[]string{"rollout", "1.1.0"}, []string{"edge: the origin refused: another rollout is under way\n", "hint: edge release status --watch follows it, edge release rollback ends it"}, 1},
		{[]string{"rollback", "--wait"}, []string{"rolled back"}, 0},
		{append([]string{"rollout", "1.1.0", "--regions", "eu"}, atOnce...), []string{"1 of 1 nodes"}, 0},
		{append([]string{"rollout", "1.1.0"}, atOnce...), []string{"3 of 3 nodes"}, 0},
		{[]string{"rollback", "--wait"}, []string{"rolled back", "0 of 3 nodes", "back", "it ran this release before the rollout"}, 0},
		{append([]string{"rollout", "1.0.0"}, atOnce...), []string{"3 of 3 nodes"}, 0},
	} {
		text := command(tt.code, tt.args...)
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("edge release %v says nothing of %q:\n%s", tt.args, want, text)
			}
		}
	}
	nodesRun(t, d, digest)
	if asked, failed := s.asked.Load(), s.failed.Load(); failed > 0 || asked < 10 {
		t.Errorf("%d of %d requests failed", failed, asked)
	}

	stolen, _ := thief.ship(t, d, "2.0.0", nil)
	if ended := promote(t, d, stolen, fast); ended.State != "rolled_back" || !strings.Contains(ended.Reason, "not signed by a trusted key") {
		t.Errorf("a thief's release: %+v", ended)
	}
	if failed := s.failed.Load(); failed > 0 {
		t.Errorf("%d requests failed while a thief's release was refused", failed)
	}

	bad, _ := ours.ship(t, d, "1.2.0", map[string][]byte{"agents.wasm": releasetest.Trap(t)})
	if ended := promote(t, d, bad, map[string]any{"stages": []int{34, 100}, "pause_seconds": 3600, "canary_percent": 50}); ended.State != "rolled_back" || !strings.Contains(ended.Reason, "requests") {
		t.Errorf("a release that traps: %+v", ended)
	}
	nodesRun(t, d, digest)
	t.Logf("%d of %d requests met the release that traps", s.failed.Load(), s.asked.Load())
	s.end()

	// All of it is started anew, and goes on where it was.
	if err := stopDev(d); err != nil {
		t.Fatal(err)
	}
	modules, cache := testFiles.get(t)
	c := devConfig{data: dir, modules: modules, cache: cache, compiling: output.NewCompiling(t.Output())}
	patient(&c)
	trusting(&c)
	again, err := startDev(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.stop(context.Background()) })
	nodesRun(t, again, digest)
	for _, region := range c.regions {
		var kept struct{ Digest string }
		if err := durable.ReadJSON(filepath.Join(dir, "nodes", region, "release.json"), &kept); err != nil || kept.Digest != digest {
			t.Errorf("node %s keeps %s, %v", region, kept.Digest, err)
		}
	}
}

package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/disktest"
)

// startOnSmallDisk starts a site with one node, whose state is on a disk of 4 MiB.
func startOnSmallDisk(t *testing.T) (s *site, n *regional, disk string) {
	t.Helper()
	s = startSite(t)
	n = s.node("eu")
	n.terminate()
	disk = disktest.Small(t, "4m")
	n.dir = filepath.Join(disk, "data")
	n.start()
	return s, n, disk
}

// TestFullDiskOfNode: what finds no room is refused with 500 and nothing of it
// stays; what was accepted arrives once. The node lives on, and is killed in
// the end.
func TestFullDiskOfNode(t *testing.T) {
	t.Parallel()
	s, n, disk := startOnSmallDisk(t)
	key := s.key().Plaintext
	await(t, "the key to be known", func() bool { return n.get(key) == http.StatusOK })
	sent := n.accepted(key, 3)

	// crowd sends leads until some in a row are refused.
	refused := 0
	crowd := func() {
		t.Helper()
		for inARow := 0; inARow < 10; {
			switch status, id := n.lead(key, fmt.Sprintf("Refused Number%04d", len(sent)), ""); status {
			case http.StatusCreated:
				sent = append(sent, id)
				inARow = 0
			case http.StatusInternalServerError:
				refused++
				inARow++
			default:
				t.Fatalf("a lead on a full disk: %d\n%s", status, n.out)
			}
		}
	}
	// Leads that are handed over leave room for others, so none leaves meanwhile.
	cut := func() {
		n.relay.Cut()
		await(t, "the node to notice", func() bool { return n.metric("edge_origin_connected") == 0 })
	}
	cut()
	free := disktest.Fill(t, disk)
	crowd()
	free()
	n.relay.Mend()
	sent = append(sent, n.accepted(key, 3)...)
	s.arrived(sent)

	cut()
	sent = append(sent, n.accepted(key, 3)...)
	free = disktest.Fill(t, disk)
	crowd()
	n.kill()
	free()
	n.start()
	n.relay.Mend()
	sent = append(sent, n.accepted(key, 3)...)
	s.arrived(sent)
	if refused < 20 {
		t.Errorf("%d leads were refused", refused)
	}
}

// TestFullDiskLeavesReads: while its disk takes nothing, a node answers reads, with
// limits in memory, refuses leads with a Retry-After, and says so to operators.
func TestFullDiskLeavesReads(t *testing.T) {
	t.Parallel()
	s, n, disk := startOnSmallDisk(t)
	key, doomed := s.key().Plaintext, s.key()
	few := makeKey(t, s.admin, s.account, 30).Plaintext // a token comes back in two seconds
	for _, held := range []string{key, few, doomed.Plaintext} {
		await(t, "the key to be known", func() bool { return n.get(held) == http.StatusOK })
	}
	ready := func() int {
		status, _ := request(t, "GET", strings.TrimSuffix(n.ready.MetricsURL, "/metrics")+"/readyz", "", "")
		return status
	}
	await(t, "the node to be ready before", func() bool { return ready() == http.StatusOK })
	free := disktest.Fill(t, disk)
	await(t, "limits to be in memory", func() bool {
		n.get(key)
		return n.metric("edge_limits_in_memory") == 1
	})
	left, err := strconv.Atoi(n.answer(few).Header.Get("X-Ratelimit-Remaining"))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if status := n.get(few); status != http.StatusOK {
			t.Fatalf("a read on a full disk: %d\n%s", status, n.out)
		}
	}
	if now, err := strconv.Atoi(n.answer(few).Header.Get("X-Ratelimit-Remaining")); err != nil || now >= left {
		t.Errorf("%d tokens left before 20 reads, %d after (%v)", left, now, err)
	}
	if status := ready(); status != http.StatusServiceUnavailable {
		t.Errorf("readyz on a full disk: %d", status)
	}
	other := s.key()
	await(t, "a key that the node never met to be served, on a full disk", func() bool { return n.get(other.Plaintext) == http.StatusOK })
	// Records need more than what is left in the last page of a file.
	for range 24 {
		met := s.key().Plaintext
		await(t, "a key that the node never met to be served, on a full disk", func() bool { return n.get(met) == http.StatusOK })
	}
	for _, revoked := range []mintedKey{doomed, other} {
		s.revoke(revoked)
		await(t, "a revoked key to be refused on a full disk", func() bool { return n.get(revoked.Plaintext) == http.StatusUnauthorized })
	}
	var sent []string
	status, id := n.lead(key, "Lead", "")
	for ; status == http.StatusCreated && len(sent) < 5000; status, id = n.lead(key, "Lead", "") {
		sent = append(sent, id) // what was written ahead of the outbox's records takes some
	}
	if status != http.StatusInternalServerError {
		t.Errorf("a lead on a full disk, after %d: %d", len(sent), status)
	}
	free()
	await(t, "the node to be ready again", func() bool { return ready() == http.StatusOK && n.metric("edge_limits_in_memory") == 0 })
	s.arrived(append(sent, n.accepted(key, 3)...))
}

// TestFullDiskOfOrigin: the origin refuses what it cannot keep, nodes hold their
// leads until it can.
func TestFullDiskOfOrigin(t *testing.T) {
	t.Parallel()
	disk := disktest.Small(t, "8m")
	s := startSite(t, "--database", filepath.Join(disk, "origin.db"))
	n := s.node("eu")
	key := s.key().Plaintext
	await(t, "the key to be known", func() bool { return n.get(key) == http.StatusOK })
	sent := n.accepted(key, 3)
	s.arrived(sent)

	free := disktest.Fill(t, disk)
	var kept []string
	refused := false
	for i := 0; !refused && i < 2000; i++ {
		var made struct {
			ID string `json:"id"`
		}
		err := s.admin.Call(t.Context(), "POST", "/accounts", map[string]any{
			"name": fmt.Sprint("Account ", i), "agent": map[string]string{"email": "dana@example.com", "full_name": "Dana Reyes"},
		}, &made)
		if refusal, ok := errors.AsType[*adminapi.Error](err); ok && refusal.Status == http.StatusInternalServerError {
			refused = true
		} else if err != nil {
			t.Fatal(err)
		} else {
			kept = append(kept, made.ID)
		}
	}
	if !refused {
		t.Error("the origin kept 2000 accounts on a full disk")
	}
	sent = append(sent, n.accepted(key, 20)...)
	if status := n.get(key); status != http.StatusOK {
		t.Errorf("a held key while the origin's disk is full: %d", status)
	}
	free()
	s.arrived(sent)
	s.origin.kill()
	s.startOrigin()
	s.arrived(sent)
	for _, id := range kept {
		if err := s.admin.Call(t.Context(), "GET", "/accounts/"+id, nil, nil); err != nil {
			t.Errorf("account %s, which was answered 201, is gone: %v", id, err)
		}
	}
}

// TestStartOnAFullDisk: an origin that cannot open its database for want of room says so.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := disktest.Small(t, "16m")
	database := filepath.Join(disk, "origin.db")
	s := startSite(t, "--database", database)
	s.origin.terminate()
	free := disktest.Fill(t, disk)
	defer free()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // should it start after all
	defer cancel()
	said, err := exec.CommandContext(ctx, s.program, "origin", "--data", s.originDir, "--database", database,
		"--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "hint: the disk of the database is full") {
		t.Errorf("the origin ended with %v and said\n%s", err, said)
	}
}

// TestWhenADiskIsFull fills the disk of a node, then that of the origin's database: the
// page's commands work meanwhile, each says that it is not ready, everything else goes on,
// and all is well once there is room.
func TestWhenADiskIsFull(t *testing.T) {
	t.Parallel()
	originDisk := disktest.Small(t, "16m") // the leads of the node take some
	s, nodes, do := startSiteOn(t, "when", []string{"--database", filepath.Join(originDisk, "origin.db")}, "eu", "us")
	n, other := nodes[0], nodes[1]
	n.terminate()
	disk := disktest.Small(t, "4m")
	n.dir = filepath.Join(disk, "data")
	n.start()
	key := s.key().Plaintext
	for _, n := range nodes {
		await(t, "the key to be known", func() bool { return n.get(key) == http.StatusOK })
	}
	sent := n.accepted(key, 3)
	s.arrived(sent)
	ready := func(url string) (int, string) {
		status, body := request(t, "GET", url+"/readyz", "", "")
		return status, string(body)
	}
	page := func() {
		t.Helper()
		if said := do("When a disk is full"); strings.Count(said, " up ") != len(nodes) || !strings.Contains(said, "admin.token") {
			t.Errorf("the page says %s", said)
		}
	}

	operators := strings.TrimSuffix(n.ready.MetricsURL, "/metrics")
	free := disktest.Fill(t, disk)
	await(t, "the node to say so", func() bool {
		n.get(key)
		status, text := ready(operators)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "disk")
	})
	page()
	if status := n.get(key); status != http.StatusOK {
		t.Errorf("a read at the node: %d", status)
	}
	status, id := n.lead(key, "Lead", "")
	for ; status == http.StatusCreated && len(sent) < 5000; status, id = n.lead(key, "Lead", "") {
		sent = append(sent, id) // what was written ahead of the outbox's records takes some
	}
	if status != http.StatusInternalServerError {
		t.Errorf("a lead on a full disk, after %d: %d", len(sent), status)
	}
	sent = append(sent, other.accepted(key, 3)...)
	free()
	await(t, "the node to be ready", func() bool { status, _ := ready(operators); return status == http.StatusOK })
	sent = append(sent, n.accepted(key, 3)...)
	s.arrived(sent)

	await(t, "the origin to be ready before", func() bool { status, _ := ready(s.ready.AdminURL); return status == http.StatusOK })
	free = disktest.Fill(t, originDisk)
	await(t, "the origin to refuse a write", func() bool {
		err := s.admin.Call(t.Context(), "POST", "/accounts/"+s.account+"/keys", map[string]any{
			"environment": "live", "scopes": []string{"read:agent"}, "label": strings.Repeat("x", 100),
		}, nil)
		refusal, ok := errors.AsType[*adminapi.Error](err)
		if err != nil && (!ok || refusal.Status != http.StatusInternalServerError) {
			t.Fatal(err)
		}
		return err != nil
	})
	await(t, "the origin to say so", func() bool {
		status, text := ready(s.ready.AdminURL)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "disk")
	})
	page()
	for _, n := range nodes {
		if status := n.get(key); status != http.StatusOK {
			t.Errorf("a read while the origin's disk is full: %d", status)
		}
		sent = append(sent, n.accepted(key, 3)...)
	}
	free()
	await(t, "the origin to be ready", func() bool { status, _ := ready(s.ready.AdminURL); return status == http.StatusOK })
	s.arrived(sent)
}

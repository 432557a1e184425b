//go:build unix

package command

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestStoppedOrigin: an origin that stands still, its connections open, keeps
// nobody waiting, and loses nothing.
func TestStoppedOrigin(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	eu, us := s.node("eu"), s.node("us")
	held, unmet := s.key(), s.key()
	for _, n := range []*regional{eu, us} {
		await(t, "the key to be known", func() bool { return n.get(held.Plaintext) == http.StatusOK })
	}
	s.origin.stop()
	sent := append(eu.accepted(held.Plaintext, 20), us.accepted(held.Plaintext, 20)...)
	for range 20 {
		for _, n := range []*regional{eu, us} {
			if status := n.get(held.Plaintext); status != http.StatusOK {
				t.Fatalf("a held key while the origin is stopped: %d", status)
			}
		}
	}
	if status := eu.get(unmet.Plaintext); status != http.StatusInternalServerError {
		t.Errorf("a key that the node never met: %d, want 500", status)
	}
	s.origin.signal(syscall.SIGCONT)
	s.arrived(append(sent, eu.accepted(held.Plaintext, 1)...))
	await(t, "the other key to be known", func() bool { return eu.get(unmet.Plaintext) == http.StatusOK })
}

// TestStoppedNode: a request that comes while a node stands still is the first
// that it sees, before anything of what it missed. The revoked key is refused
// all the same; if the origin takes longer than a node waits for it, which the node
// logs, the answer has an Age.
func TestStoppedNode(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	eu, us := s.node("eu"), s.node("us")
	for range 3 {
		doomed := s.key()
		for _, n := range []*regional{eu, us} {
			await(t, "the key to be known", func() bool { return n.get(doomed.Plaintext) == http.StatusOK })
		}
		sent := eu.accepted(doomed.Plaintext, 3)
		eu.stop()
		s.revoke(doomed)
		await(t, "the other node to refuse", func() bool { return us.get(doomed.Plaintext) == http.StatusUnauthorized })
		answers := make(chan *http.Response, 4)
		var asking sync.WaitGroup
		for range cap(answers) {
			asking.Go(func() { answers <- eu.answer(doomed.Plaintext) })
		}
		time.Sleep(1500 * time.Millisecond) // the fault itself
		eu.signal(syscall.SIGCONT)
		asking.Wait()
		close(answers)
		for answer := range answers {
			late := answer.StatusCode == http.StatusOK && answer.Header.Get("Age") != ""
			if late { // the node logs it after it has answered
				await(t, "the node to say why", func() bool { return strings.Contains(eu.out.String(), "cannot catch up with origin") })
			} else if answer.StatusCode != http.StatusUnauthorized {
				t.Errorf("a key that was revoked while the node stood still: %s\n%s", answer.Status, eu.out)
			}
		}
		leads := allLeads(t, s.admin, s.account)
		for _, id := range sent {
			await(t, "the leads to arrive", func() bool {
				leads = allLeads(t, s.admin, s.account)
				return slices.Contains(leads, id)
			})
		}
		if unique := slices.Compact(sorted(leads)); len(unique) != len(leads) {
			t.Errorf("%d leads at the origin, %d different ones", len(leads), len(unique))
		}
	}
}

// stop has the process stand still, and returns when it does. It goes on for a while
// after the signal where processors are busy.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || !status.Stopped() {
			p.t.Fatalf("edge %s ended, and was to stand still: %v", p.name, err)
		}
		return
	}
}

// TestBadLink cuts and stalls the way to the origin while leads come in.
func TestBadLink(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	n := s.node("eu")
	held, doomed := s.key(), s.key()
	for _, k := range []mintedKey{held, doomed} {
		await(t, "the key to be known", func() bool { return n.get(k.Plaintext) == http.StatusOK })
	}
	var sent []string
	for round := range 12 {
		if round%3 == 2 {
			n.relay.Stall()
		} else {
			n.relay.Cut()
		}
		sent = append(sent, n.accepted(held.Plaintext, 5)...)
		if status := n.get(held.Plaintext); status != http.StatusOK {
			t.Fatalf("a held key without a link: %d", status)
		}
		n.relay.Mend()
		sent = append(sent, n.accepted(held.Plaintext, 5)...)
	}
	n.relay.Cut()
	await(t, "the node to notice", func() bool { return n.metric("edge_origin_connected") == 0 })
	s.revoke(doomed)
	n.relay.Mend()
	await(t, "the node to be back", func() bool { return n.metric("edge_origin_connected") == 1 })
	// At once, unless the origin takes longer than a node waits for it.
	await(t, "the key that was revoked while the link was cut to be refused", func() bool {
		answer := n.answer(doomed.Plaintext)
		if answer.StatusCode == http.StatusOK && answer.Header.Get("Age") == "" {
			t.Fatal("a key that was revoked while the link was cut is served as if it were known to be good")
		}
		return answer.StatusCode == http.StatusUnauthorized
	})
	s.arrived(sent)
}

// TestWipedNode: a node that lost its disk after it handed over loses nothing
// and repeats nothing, with its old credentials and with new ones.
func TestWipedNode(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	n := s.node("eu")
	key := s.key().Plaintext
	known := func() {
		t.Helper()
		await(t, "the key to be known", func() bool { return n.get(key) == http.StatusOK })
	}
	known()
	once := func() (id string) {
		t.Helper()
		status, id := n.lead(key, "Ada Once", "the first of May")
		if status != http.StatusCreated {
			t.Fatalf("a lead with an idempotency key: %d", status)
		}
		return id
	}
	first := once()
	sent := append(n.accepted(key, 10), first)
	wipe := func() {
		t.Helper()
		await(t, "the leads to be handed over", func() bool { return n.metric("edge_outbox_leads") == 0 })
		n.kill()
		if err := os.RemoveAll(n.dir); err != nil {
			t.Fatal(err)
		}
	}
	wipe()
	n.start()
	known()
	sent = append(sent, n.accepted(key, 10)...)
	day := time.Now().UTC().Truncate(24 * time.Hour)
	if again := once(); again != first && time.Now().UTC().Truncate(24*time.Hour).Equal(day) {
		t.Errorf("the same request after the wipe made %s, before it %s", again, first)
	} else if again != first {
		sent = append(sent, again) // the day has turned between the two
	}
	wipe()
	again := enrolled(t, s.admin, t.TempDir(), "eu", n.origin)
	n.credentials = again.credentials
	n.start()
	known()
	sent = append(sent, n.accepted(key, 10)...)
	s.arrived(sent)
}

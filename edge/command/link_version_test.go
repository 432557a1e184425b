package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/edge/wire"
)

// speaking is the program as it would be if it spoke versions more than it does.
func speaking(t *testing.T, more int) string {
	t.Helper()
	if more == 0 {
		return testFiles.program(t)
	}
	source, err := filepath.Abs("../wire/wire.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	says := fmt.Appendf(nil, "\nconst Version = %d\n", wire.Version)
	if bytes.Count(text, says) != 1 {
		t.Fatalf("%s does not say %q", source, says)
	}
	dir := t.TempDir()
	other := written(t, filepath.Join(dir, "wire.go"), bytes.Replace(text, says, fmt.Appendf(nil, "\nconst Version = %d\n", wire.Version+more), 1))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: other}})
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "edge")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w",
		"-overlay", written(t, filepath.Join(dir, "overlay.json"), overlay), "-o", program, "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	return program
}

// TestVersionsApart runs nodes and an origin that speak different versions of
// messages. Two apart, each side says so, seldom, and the node serves what it
// holds until they are closer again; a new node does not start. One apart,
// everything works, whichever is the newer.
func TestVersionsApart(t *testing.T) {
	t.Parallel()
	next, afterNext := speaking(t, 1), speaking(t, 2)
	s := startSite(t, "--log-level", "debug")
	now := s.program
	origin := func(program string) {
		t.Helper()
		s.origin.terminate()
		s.program = program
		s.startOrigin()
	}
	n := holding(t, s)
	node := func(program string) {
		t.Helper()
		n.terminate()
		n.program = program
		n.start("--log-level", "debug")
	}
	n.works()

	// The origin is brought up to date too far.
	began := time.Now()
	origin(afterNext)
	const tooFar = "a version that is too far from this node's"
	seldomWarns(t, n.process, began, tooFar)
	seldomWarns(t, s.origin, began, fmt.Sprintf("speaks version %d, too far from this origin's %d", wire.Version, wire.Version+2))
	n.serves()
	unknown := makeKey(t, s.admin, s.account, 100)
	if status := n.get(unknown.Plaintext); status != http.StatusInternalServerError {
		t.Errorf("a key that the node cannot ask for: %d", status)
	}
	newcomer := enrolled(t, s.admin, filepath.Join(s.dir, "newcomer"), "us", s.ready.NATSURL)
	newcomer.fails(t, tooFar, "one version apart")
	if n.metric("edge_outbox_leads") == 0 {
		t.Error("no lead waits at the node")
	}
	origin(next)
	n.works()

	// Then the node.
	origin(now)
	began = time.Now()
	node(afterNext)
	seldomWarns(t, n.process, began, tooFar)
	seldomWarns(t, s.origin, began, fmt.Sprintf("speaks version %d, too far from this origin's %d", wire.Version+2, wire.Version))
	n.serves()
	node(next)
	n.works()
	n.terminate()
	s.origin.terminate()
}

// works holds that everything that node and origin say to each other is
// understood.
func (n *held) works() {
	n.t.Helper()
	nodeSaid, originSaid := len(n.out.String()), len(n.s.origin.out.String())
	fresh := makeKey(n.t, n.s.admin, n.s.account, 100)
	await(n.t, "a new key to be asked for", func() bool { return n.get(fresh.Plaintext) == http.StatusOK })
	n.serves()
	n.s.arrived(n.sent)
	shares := func() float64 { return n.metric(`edge_spending_total\{what="shares"\}`) }
	before := shares()
	n.get(n.key.Plaintext)
	await(n.t, "the spending to be confirmed", func() bool { return shares() > before })
	n.s.revoke(fresh)
	await(n.t, "the key to be refused", func() bool { return n.get(fresh.Plaintext) == http.StatusUnauthorized })
	if said := n.out.String()[nodeSaid:] + n.s.origin.out.String()[originSaid:]; strings.Contains(said, "too far") {
		n.t.Errorf("what is said is not understood:\n%s", said)
	}
}

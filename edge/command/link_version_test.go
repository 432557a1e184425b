package command

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/edge/wire"
)

// speaking returns programs that are as this one would be if it spoke one version more,
// and two: one build, which is told by its environment.
func speaking(t *testing.T) (next, afterNext string) {
	t.Helper()
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
	program := filepath.Join(dir, "edge")
	if err := buildProgram(program, "test", map[string]string{
		source: written(t, filepath.Join(dir, "wire.go"), bytes.Replace(text, says, []byte("\n"), 1)),
		filepath.Join(filepath.Dir(source), "told.go"): written(t, filepath.Join(dir, "told.go"), []byte(`package wire

import (
	"os"
	"strconv"
)

var Version, _ = strconv.Atoi(os.Getenv("WIRE_VERSION"))
`)),
	}); err != nil {
		t.Fatal(err)
	}
	told := func(more int) (script string) {
		script = written(t, filepath.Join(dir, fmt.Sprint("edge-", more)), fmt.Appendf(nil, "#!/bin/sh\nWIRE_VERSION=%d exec '%s' \"$@\"\n", wire.Version+more, program))
		if err := os.Chmod(script, 0o700); err != nil {
			t.Fatal(err)
		}
		return script
	}
	return told(1), told(2)
}

// TestVersionsApart runs nodes and an origin that speak different versions of
// messages. Two apart, each side says so, seldom, and the node serves what it
// holds until they are closer again; a new node does not start. One apart,
// everything works, whichever is the newer.
func TestVersionsApart(t *testing.T) {
	t.Parallel()
	next, afterNext := speaking(t)
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

package command

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/edge/certificate/certificatetest"
)

func written(t *testing.T, file string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// fails runs a node that is not to start, and holds what it says.
func (n *regional) fails(t *testing.T, says, hints string, more ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, n.program, n.args(more...)...)
	cmd.Stderr = &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != exitFailed {
		t.Fatalf("ended with %v\n%s", err, stderr.String())
	}
	for _, want := range []string{"edge: start node: ", says, "\nhint: ", hints} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("does not say %q:\n%s", want, stderr.String())
		}
	}
}

// lines counts those of a process that are of a level and have text in them.
func (p *process) lines(level, text string) (n int) {
	for line := range strings.Lines(p.out.String()) {
		if strings.Contains(line, "level="+level) && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// TestNodeSaysWhatKeepsItFromItsOrigin starts nodes that can do nothing without
// their origin and do not get to it: each says why, and what to do.
func TestNodeSaysWhatKeepsItFromItsOrigin(t *testing.T) {
	t.Parallel()
	cert, key := certificatetest.Write(t, t.TempDir())
	otherCert, _ := certificatetest.Write(t, t.TempDir())
	s := startSite(t, "--nats-tls-cert", cert, "--nats-tls-key", key)
	elsewhere := startSite(t)
	good := enrolled(t, s.admin, filepath.Join(s.dir, "good"), "eu", s.ready.NATSURL)
	foreign := enrolled(t, elsewhere.admin, filepath.Join(s.dir, "foreign"), "us", elsewhere.ready.NATSURL)
	revoked := enrolled(t, s.admin, filepath.Join(s.dir, "revoked"), "ap", s.ready.NATSURL)
	s.revokeNode("dev-ap")
	text, err := os.ReadFile(good.credentials)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, text []byte) string { return written(t, filepath.Join(s.dir, name), text) }
	token, _, _ := strings.Cut(string(text), "-----BEGIN USER NKEY SEED-----")
	theirs, err := os.ReadFile(foreign.credentials)
	if err != nil {
		t.Fatal(err)
	}
	_, seed, _ := strings.Cut(string(theirs), "-----BEGIN USER NKEY SEED-----")

	const enrol, trust, again = "enrol the node", "--origin-ca", "Enrol it there again"
	for name, tt := range map[string]struct {
		credentials, ca string
		says, hints     string
	}{
		"no credentials":                 {filepath.Join(s.dir, "none"), cert, "no such file", enrol},
		"credentials that are a folder":  {s.dir, cert, "is a directory", enrol},
		"credentials that are empty":     {file("empty", nil), cert, "holds no NATS credentials", enrol},
		"credentials that are garbage":   {file("garbage", []byte("garbage\x00\xff")), cert, "holds no NATS credentials", enrol},
		"credentials cut off":            {file("cut", []byte(token)), cert, "holds no private key", enrol},
		"credentials of two":             {file("mixed", []byte(token+"-----BEGIN USER NKEY SEED-----"+seed)), cert, "holds the private key of others", enrol},
		"credentials of another origin":  {foreign.credentials, cert, "refuses the node's credentials", again},
		"credentials that were revoked":  {revoked.credentials, cert, "refuses the node's credentials", again},
		"a CA that signed nothing here":  {good.credentials, otherCert, "unknown authority", trust},
		"no CA, and the system's do not": {good.credentials, "", "unknown authority", trust},
		"a CA file that is not there":    {good.credentials, filepath.Join(s.dir, "none"), "no such file", trust},
		"a CA file that is garbage":      {good.credentials, file("ca", []byte("garbage")), "holds no certificate", trust},
	} {
		t.Run(name, func(t *testing.T) {
			n := *good
			for _, other := range []*regional{foreign, revoked} {
				if tt.credentials == other.credentials {
					n.region = other.region
				}
			}
			n.credentials, n.dir = tt.credentials, t.TempDir()
			n.fails(t, tt.says, tt.hints, "--origin-ca", tt.ca)
		})
	}
	good.start("--origin-ca", cert)
	newcomer := makeKey(t, s.admin, s.account, 100)
	await(t, "the node to serve", func() bool { return good.get(newcomer.Plaintext) == http.StatusOK })
	good.terminate()
	s.origin.terminate()
}

func (s *site) revokeNode(name string) {
	s.t.Helper()
	id, err := nodeNamed(s.t, s.admin, name)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.admin.Call(s.t.Context(), "POST", "/nodes/"+id+"/revoke", nil, nil); err != nil {
		s.t.Fatal(err)
	}
}

// held is a node that holds a key, its origin, and what partners sent to it.
type held struct {
	*regional
	s    *site
	key  mintedKey
	sent []string
}

func holding(t *testing.T, s *site) *held {
	t.Helper()
	n := &held{regional: enrolled(t, s.admin, filepath.Join(s.dir, "node"), "eu", s.ready.NATSURL), s: s}
	n.start("--log-level", "debug")
	n.key = makeKey(t, s.admin, s.account, 10_000)
	await(t, "the key to be known", func() bool { return n.get(n.key.Plaintext) == http.StatusOK })
	return n
}

// serves holds that what the node holds is served, and leads are taken.
func (n *held) serves() {
	n.t.Helper()
	if status := n.get(n.key.Plaintext); status != http.StatusOK {
		n.t.Errorf("a key that is held: %d\n%s", status, n.out)
	}
	n.sent = append(n.sent, n.accepted(n.key.Plaintext, 3)...)
}

// isHealthy waits until a balancer is told that the node is, or is not, to get requests.
func (n *held) isHealthy(want bool) {
	n.t.Helper()
	await(n.t, fmt.Sprint("the node to be healthy: ", want), func() bool {
		resp, err := http.Get(n.ready.BaseURL + "/healthz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return (resp.StatusCode == http.StatusOK) == want
	})
}

// seldomWarns waits until a process had cause to warn many times, and holds that
// it did once a minute at most.
func seldomWarns(t *testing.T, p *process, since time.Time, text string) {
	t.Helper()
	await(t, "many causes to warn: "+text, func() bool { return p.lines("DEBUG", text) >= 5 })
	warned, most := p.lines("WARN", text), 1+int(time.Since(since)/time.Minute)
	if warned < 1 || warned > most {
		t.Errorf("%d warnings %q, want 1 to %d:\n%s", warned, text, most, p.out)
	}
}

// TestRefusedNodeServesWhatItHolds revokes a node that runs, and then takes all
// the origin's data away: the node answers on, takes leads, and hands them over
// once it is enrolled again. Balancers are told to send a revoked one no more requests.
func TestRefusedNodeServesWhatItHolds(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	n := holding(t, s)
	n.serves()
	s.arrived(n.sent)

	began := time.Now()
	s.revokeNode("dev-eu")
	await(t, "the node to be out", func() bool { return n.lines("WARN", "refuses the node's credentials") > 0 })
	n.serves()
	n.isHealthy(false)
	seldomWarns(t, n.process, began, "refuses the node's credentials")
	n.serves()

	// Started again it holds what it held.
	n.terminate()
	began = time.Now()
	n.start("--log-level", "debug")
	n.serves()
	seldomWarns(t, n.process, began, "refuses the node's credentials")
	n.terminate()

	again := enrolled(t, s.admin, filepath.Join(s.dir, "again"), "us", s.ready.NATSURL)
	n.credentials, n.region = again.credentials, again.region
	n.start("--log-level", "debug")
	s.arrived(n.sent)
	n.isHealthy(true)

	// An origin that begins anew knows no node.
	s.origin.terminate()
	if err := os.RemoveAll(s.originDir); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	s.startOrigin()
	seldomWarns(t, n.process, began, "refuses the node's credentials")
	n.serves()
	n.isHealthy(true)
	n.terminate()
	s.origin.terminate()
}

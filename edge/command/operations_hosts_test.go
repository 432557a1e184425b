package command

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"partneredge/edge/addresstest"
)

// hosts are the machines of OPERATIONS.md: each a folder with its own /etc and
// /var. Their units are started by what they say; useradd is left out, and so is
// what systemd forbids a process.
type hosts struct {
	t       *testing.T
	root    string
	modules string
	cache   string
	// database stands for the one of the document.
	database string
	ports    map[string]string // by the document's host:port
	up       map[string]*process
	// program is the one that is installed; "": that of the tests. loaded is the one whose
	// units systemd has read.
	program, loaded string
	servers         []*server.Server // NATS servers
}

// block of the document: for a machine, either a script or a file.
type block struct{ kind, host, file, text string }

func operationsBlocks(t *testing.T, section string) (all []block) {
	t.Helper()
	text, err := os.ReadFile("../OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("no section %s", section)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	for _, m := range regexp.MustCompile("(?s)```(sh|env|conf) ([a-z0-9]+) ?([^\n]*)\n(.*?)```").FindAllStringSubmatch(part, -1) {
		all = append(all, block{m[1], m[2], m[3], m[4]})
	}
	if strings.Count(part, "```") != 2*len(all) {
		t.Fatalf("section %s has blocks that are of no machine", section)
	}
	return all
}

func newHosts(t *testing.T) *hosts {
	t.Helper()
	modules, cache := testFiles.get(t)
	return &hosts{t: t, root: t.TempDir(), modules: modules, cache: cache, ports: map[string]string{}, up: map[string]*process{}}
}

func (h *hosts) path(host, path string) string { return filepath.Join(h.root, host, path) }

// machine is the folder of a host, with the certificate that it has.
func (h *hosts) machine(host string) string {
	h.t.Helper()
	dir := filepath.Join(h.root, host)
	if there(dir) {
		return dir
	}
	for _, d := range []string{"etc/edge", "etc/nats", "etc/prometheus", "var/lib/nats", "var/backups"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			h.t.Fatal(err)
		}
	}
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		h.t.Fatal(err)
	}
	for name, b := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, "tls.key": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(dir, "etc/edge", name), pem.EncodeToMemory(b), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	return dir
}

var (
	remotePath = regexp.MustCompile(`\b([a-z0-9]+):(/(?:etc|var)/)`)
	localPath  = regexp.MustCompile(`(^|[\s'"=])(/(?:etc/edge|etc/nats|etc/prometheus|var/lib|var/backups))\b`)
	someAddr   = regexp.MustCompile(`(\s|\b10\.0\.0\.\d+|\b127\.0\.0\.1|\blocalhost|\borigin\.example\.com):(\d{3,5})\b`)
)

// here is the document's text on a host: its paths below the host's folder, its
// addresses on loopback, its database the test's.
func (h *hosts) here(host, text string) string {
	h.machine(host)
	text = strings.ReplaceAll(text, "postgres://edge@10.0.0.9/edge?sslmode=verify-full", h.database)
	text = strings.ReplaceAll(text, "/usr/lib/edge/modules", h.modules)
	text = remotePath.ReplaceAllStringFunc(text, func(m string) string {
		name, path, _ := strings.Cut(m, ":")
		return h.machine(name) + path
	})
	text = localPath.ReplaceAllString(text, "${1}"+h.machine(host)+"$2")
	return someAddr.ReplaceAllStringFunc(text, func(addr string) string {
		name, port, _ := strings.Cut(addr, ":")
		switch name {
		case " ", "\n": // any address of this machine
			return name + h.port(host+":"+port)
		case "127.0.0.1", "localhost":
			if strings.Contains(h.database, "@"+addr+"/") { // the test's own
				return addr
			}
			name = host
		case "origin.example.com":
			name = "10.0.0.1"
		}
		return h.port(name + ":" + port)
	})
}

func (h *hosts) port(addr string) string {
	if h.ports[addr] == "" {
		h.ports[addr] = addresstest.Fixed(h.t)
	}
	return h.ports[addr]
}

// do runs a block: a file is written, a script is given to sh, but for systemctl,
// which is done here.
func (h *hosts) do(b block) string {
	h.t.Helper()
	text := h.here(b.host, b.text)
	if b.kind != "sh" {
		if err := os.WriteFile(h.path(b.host, b.file), []byte(text), 0o600); err != nil {
			h.t.Fatal(err)
		}
		return ""
	}
	var out, script strings.Builder
	flush := func() {
		if script.Len() == 0 {
			return
		}
		cmd := exec.Command("sh", "-euc", "scp() { cp \"$@\"; }\ncurl() { command curl -fsS --max-time 30 --retry 60 --retry-connrefused --retry-delay 1 --noproxy '*' \"$@\"; }\n"+
			"useradd() { test $# = 4; }\nchgrp() { test -e \"$2\"; }\nchown() { shift; ls \"$@\" >&2; }\nmake() { test \"$*\" = install; }\n"+script.String())
		said, err := cmd.CombinedOutput()
		if err != nil {
			h.t.Fatalf("on %s: %v\n%s\n%s", b.host, err, script.String(), said)
		}
		out.Write(said)
		script.Reset()
	}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 && words[0] == "systemctl" {
			flush()
			h.systemctl(b.host, words[1], words[len(words)-1])
			continue
		}
		script.WriteString(line)
	}
	flush()
	return out.String()
}

func (h *hosts) systemctl(host, verb, unit string) {
	h.t.Helper()
	if verb == "daemon-reload" {
		h.loaded = h.program
		return
	}
	if h.loaded != h.program && verb != "stop" {
		h.t.Errorf("%s starts by the unit of the program before", unit)
	}
	if verb == "stop" || verb == "restart" {
		h.up[host+unit].terminate()
	}
	if verb == "stop" {
		return
	}
	if unit == "nats-server" {
		h.nats(h.path(host, "etc/nats/nats.conf"))
		return
	}
	text, err := os.ReadFile("../systemd/" + unit + ".service")
	if err != nil {
		h.t.Fatal(err)
	}
	env := h.env(host, unit)
	flags := env["EDGE_FLAGS"]
	delete(env, "EDGE_FLAGS")
	for name, value := range env {
		h.t.Setenv(name, value)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/edge (.*)$`).FindStringSubmatch(string(text))
	if flags == "" || start == nil {
		h.t.Fatalf("%s on %s cannot be started", unit, host)
	}
	args := strings.Fields(strings.NewReplacer(
		"%S", h.path(host, "var/lib"), "${CREDENTIALS_DIRECTORY}", h.path(host, "etc/edge"),
		"/usr/lib/edge/modules", h.modules, "$EDGE_FLAGS", flags).Replace(start[1]))
	if unit == "edge-node" {
		// Where only one machine has them: modules that were compiled before, the default
		// port of metrics, who signed the origin's certificate.
		args = append(args, "--cache", h.cache)
		if !strings.Contains(flags, "--metrics ") {
			args = append(args, "--metrics", "127.0.0.1:0")
		}
		if strings.Contains(flags, "tls://") {
			args = append(args, "--origin-ca", h.path("origin", "etc/edge/tls.crt"))
		}
	}
	data := h.path(host, "var/lib/"+unit)
	if strings.Contains(flags, "--nats ") && !h.natsIsUp() {
		// It fails, and systemd starts it over; what matters is what it leaves.
		out, err := exec.Command(testFiles.program(h.t), args...).CombinedOutput()
		if err == nil || !there(filepath.Join(data, "nats", "account.jwt")) {
			h.t.Fatalf("without its NATS: %v\n%s", err, out)
		}
		return
	}
	var ready map[string]any
	h.up[host+unit] = startProgram(h.t, cmp.Or(h.program, testFiles.program(h.t)), filepath.Join(data, strings.TrimPrefix(unit, "edge-")+".json"), &ready, args...)
}

// env returns the environment of a unit.
func (h *hosts) env(host, unit string) map[string]string {
	h.t.Helper()
	text, err := os.ReadFile(h.path(host, "etc/edge/"+strings.TrimPrefix(unit, "edge-")+".env"))
	if err != nil {
		h.t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	return env
}

func (h *hosts) natsIsUp() bool {
	conn, err := net.Dial("tcp", h.port("10.0.0.11:4222"))
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// nats runs a server of the cluster, or of a region, in this process.
func (h *hosts) nats(file string) {
	h.t.Helper()
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, remote := range opts.LeafNode.Remotes {
		remote.TLS, remote.TLSConfig, remote.TLSTimeout = true, h.trustOrigin(), 60
	}
	opts.NoSigs, opts.NoLog = true, true
	opts.AuthTimeout, opts.TLSTimeout = 60, 60 // seconds: this machine may be slow
	s, err := server.NewServer(opts)
	if err != nil {
		h.t.Fatal(err)
	}
	s.Start()
	h.t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		h.t.Fatal("NATS is not ready")
	}
	h.servers = append(h.servers, s)
}

// needShell skips the test of a document's commands where a tool for them is
// missing.
func needShell(t *testing.T, what string) {
	t.Helper()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT TESTED: %s needs %s: %v", what, tool, err)
		}
	}
}

// hasAdminTLS fails unless an origin's admin API has TLS, with the certificate of its machine.
func (h *hosts) hasAdminTLS(host string) {
	h.t.Helper()
	admin, err := localClient(h.path(host, "var/lib/edge-origin"))
	if err != nil {
		h.t.Fatal(err)
	}
	if !strings.HasPrefix(admin.URL, "https://") {
		h.t.Errorf("the admin API of %s is at %s", host, admin.URL)
	}
	if err := admin.Call(h.t.Context(), "GET", "/whoami", nil, nil); err != nil {
		h.t.Error(err)
	}
}

// connected waits until an origin hears a node of each region.
func (h *hosts) connected(host string, regions ...string) {
	h.t.Helper()
	admin, err := localClient(h.path(host, "var/lib/edge-origin"))
	if err != nil {
		h.t.Fatal(err)
	}
	await(h.t, fmt.Sprintf("nodes in %v", regions), func() bool {
		var page struct {
			Items []struct {
				Region    string `json:"region"`
				Connected bool   `json:"connected"`
			} `json:"items"`
		}
		if err := admin.Call(h.t.Context(), "GET", "/nodes", nil, &page); err != nil {
			return false
		}
		var up []string
		for _, n := range page.Items {
			if n.Connected {
				up = append(up, n.Region)
			}
		}
		slices.Sort(up)
		return slices.Equal(up, regions)
	})
}

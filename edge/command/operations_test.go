package command

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
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

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"

	"partneredge/edge/adminapi"
	"partneredge/edge/dev"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/centraltest"
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
	// program is the one that is installed; "": that of the tests.
	program string
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
	for _, d := range []string{"etc/edge", "etc/nats", "var/lib/edge-origin", "var/lib/edge-node", "var/lib/nats", "var/backups"} {
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
	localPath  = regexp.MustCompile(`(^|[\s'"=])(/(?:etc/edge|etc/nats|var/lib|var/backups))\b`)
	someAddr   = regexp.MustCompile(`(\s|\b10\.0\.0\.\d+|\b127\.0\.0\.1|\borigin\.example\.com):(\d{3,5})\b`)
)

// here is the document's text on a host: its paths below the host's folder, its
// addresses on loopback, its database the test's.
func (h *hosts) here(host, text string) string {
	h.machine(host)
	text = strings.ReplaceAll(text, "postgres://edge@10.0.0.9/edge", h.database)
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
		case "127.0.0.1":
			if port == "5432" { // the test's own database
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
		h.ports[addr] = fixedAddress(h.t)
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
			"useradd() { test $# = 4; }\nchgrp() { test -e \"$2\"; }\nmake() { test \"$*\" = install; }\n"+script.String())
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
	env, err := os.ReadFile(h.path(host, "etc/edge/"+strings.TrimPrefix(unit, "edge-")+".env"))
	if err != nil {
		h.t.Fatal(err)
	}
	flags, found := strings.CutPrefix(strings.TrimSpace(string(env)), "EDGE_FLAGS=")
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/edge (.*)$`).FindStringSubmatch(string(text))
	if !found || start == nil {
		h.t.Fatalf("%s on %s cannot be started", unit, host)
	}
	args := strings.Fields(strings.NewReplacer(
		"%S", h.path(host, "var/lib"), "${CREDENTIALS_DIRECTORY}", h.path(host, "etc/edge"),
		"/usr/lib/edge/modules", h.modules, "$EDGE_FLAGS", flags).Replace(start[1]))
	if unit == "edge-node" {
		// Where only one machine has them: the port of metrics, modules that were
		// compiled before, who signed the origin's certificate.
		args = append(args, "--metrics", "127.0.0.1:0", "--cache", h.cache)
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
		remote.TLS, remote.TLSConfig = true, h.trustOrigin()
	}
	opts.NoSigs, opts.NoLog = true, true
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

// TestOperationsOneMachine does what OPERATIONS.md says for one machine, then
// backs it up and restores it.
func TestOperationsOneMachine(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	for _, b := range operationsBlocks(t, "One machine") {
		h.do(b)
	}
	h.connected("one", "local")
	said := ""
	for _, b := range operationsBlocks(t, "Releases of modules") {
		said += h.do(b)
	}
	for _, want := range []string{"nothing differs", "serving  1 of 1 nodes", "rolled back"} {
		if !strings.Contains(said, want) {
			t.Errorf("the commands do not say %q: %s", want, said)
		}
	}
	for _, b := range operationsBlocks(t, "Backup and restore") {
		h.do(b)
	}
	h.connected("one", "local")
}

// TestOperationsAsked exports and deletes what OPERATIONS.md says, of an account with a
// lead, and applies the tombstones to the origin.
func TestOperationsAsked(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	h.machine("asked")
	data := h.path("asked", "var/lib/edge-origin")
	db, err := central.Open(t.Context(), central.Config{URL: filepath.Join(data, databaseFile)})
	if err != nil {
		t.Fatal(err)
	}
	account, err := db.CreateAccount(t.Context(), store.Account{Name: "Harbor Realty", Agent: store.Agent{Email: "ana@example.com", FullName: "Ana"}})
	if err != nil {
		t.Fatal(err)
	}
	lead := store.Lead{ID: "lead_asked", AccountID: account.ID, Environment: store.Live, FirstName: "Bo", Email: "bo@example.com", ConsentStatus: "none", CreatedAt: time.Now()}
	if done, err := db.AddLeads(t.Context(), "node_1", []central.OfferedLead{{AcceptedLead: store.AcceptedLead{Lead: lead}, Vouched: true, Body: []byte("{}")}}); err != nil || len(done.Committed) != 1 {
		t.Fatal(done, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	h.do(block{kind: "env", host: "asked", file: "/etc/edge/origin.env", text: "EDGE_FLAGS=--admin 127.0.0.1:8090 --nats-listen 127.0.0.1:4222\n"})
	h.systemctl("asked", "start", "edge-origin")
	var said string
	for _, b := range operationsBlocks(t, "When somebody asks for their data, or to be forgotten") {
		b.text = strings.NewReplacer("ACCOUNT", account.ID, "LEAD", lead.ID).Replace(b.text)
		said += h.do(b)
	}
	for _, want := range []string{"exported", "lead      1", "bo@example.com", "deleted", "applied  2"} {
		if !strings.Contains(said, want) {
			t.Errorf("the commands do not say %q: %s", want, said)
		}
	}
	exported, err := os.ReadFile(h.path("asked", "var/backups/partner.jsonl"))
	if err != nil || !strings.Contains(string(exported), "bo@example.com") {
		t.Errorf("exported %s, %v", exported, err)
	}
}

// TestOperationsThreeRegions does so for three regions, of whose nodes the
// document shows one.
func TestOperationsThreeRegions(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	for _, b := range operationsBlocks(t, "Three regions") {
		for _, region := range []string{"eu", "us", "ap"} {
			h.machine(region)
		}
		if b.host != "eu" {
			h.do(b)
			continue
		}
		for _, region := range []string{"eu", "us", "ap"} {
			b.host, b.text = region, strings.ReplaceAll(b.text, "--region eu", "--region "+region)
			h.do(b)
			b.text = strings.ReplaceAll(b.text, "--region "+region, "--region eu")
		}
	}
	h.connected("origin", "ap", "eu", "us")
	h.regionServer()
}

// TestOperationsUpgrade brings one machine from one build to another as OPERATIONS.md
// says, and back.
func TestOperationsUpgrade(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	for _, b := range operationsBlocks(t, "One machine") {
		h.do(b)
	}
	h.connected("one", "local")
	next := filepath.Join(t.TempDir(), "edge")
	if err := buildProgram(next, "next"); err != nil {
		t.Fatal(err)
	}
	builds := func(want string) {
		t.Helper()
		admin, err := localClient(h.path("one", "var/lib/edge-origin"))
		if err != nil {
			t.Fatal(err)
		}
		await(t, "a node of build "+want, func() bool {
			var page adminapi.List[adminapi.Node]
			err := admin.Call(t.Context(), "GET", "/nodes", nil, &page)
			return err == nil && len(page.Items) == 1 && page.Items[0].Connected && page.Items[0].Build == want
		})
	}
	builds("test")
	h.program = next // make install
	for _, b := range operationsBlocks(t, "Upgrade and downgrade") {
		h.do(b)
	}
	builds("next")
	h.program = ""
	h.systemctl("one", "restart", "edge-node")
	builds("test") // at an origin of the next build
	h.systemctl("one", "restart", "edge-origin")
	builds("test")
}

// containersDatabase is the database in compose.yml.
const containersDatabase = "postgres://edge@postgres/edge?sslmode=disable"

// partnersReachNoDatabase holds that PostgreSQL in compose.yml asks for a password, and
// shares a network with the origin alone.
func partnersReachNoDatabase(t *testing.T, compose string) {
	t.Helper()
	services, _, _ := strings.Cut(compose, "\nnetworks:")
	networks := map[string]string{}
	for _, service := range regexp.MustCompile(`(?m)^  (\w+):\n(?:    .*\n)+`).FindAllStringSubmatch(services, -1) {
		networks[service[1]] = "default"
		if own := regexp.MustCompile(`(?m)^    networks: \[(.*)\]$`).FindStringSubmatch(service[0]); own != nil {
			networks[service[1]] = own[1]
		}
	}
	want := map[string]string{"postgres": "database", "origin": "database, default", "eu": "default", "us": "default"}
	if !maps.Equal(networks, want) {
		t.Errorf("the networks are %v, want %v", networks, want)
	}
	if strings.Contains(compose, "trust") || !strings.Contains(compose, "POSTGRES_PASSWORD_FILE") {
		t.Error("PostgreSQL asks for no password")
	}
	if !strings.Contains(compose, "pg_isready, -h, 127.0.0.1") {
		t.Error("PostgreSQL counts as ready while it fills its volume")
	}
}

// TestOperationsContainers starts what compose.yml has with the commands and flags that
// it gives, as OPERATIONS.md says.
func TestOperationsContainers(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	text, err := os.ReadFile("../compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	partnersReachNoDatabase(t, string(text))
	commands := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^  (\w+):\n    image: partner-edge\n    command: \[(.*)\]$`).FindAllStringSubmatch(string(text), -1) {
		for word := range strings.SplitSeq(m[2], ", ") {
			commands[m[1]] = append(commands[m[1]], strings.Trim(word, `"`))
		}
	}
	if len(commands) != 3 {
		t.Fatalf("services %v", commands)
	}
	modules, cache := testFiles.get(t)
	dir, natsURL, database := t.TempDir(), "", centraltest.Postgres(t)
	start := func(service string) {
		t.Helper()
		data := filepath.Join(dir, service)
		var args []string
		for _, word := range commands[service] {
			if strings.HasPrefix(word, "127.") || strings.HasPrefix(word, "localhost") {
				t.Errorf("%s: nobody reaches %s in a container", service, word)
			}
			word = strings.NewReplacer("/var/lib/edge", data, "/etc/edge/node.creds", filepath.Join(dir, service+".creds"),
				containersDatabase, database, "nats://origin:4222", natsURL).Replace(word)
			if strings.HasPrefix(word, "0.0.0.0:") {
				word = "127.0.0.1:0"
			}
			args = append(args, word)
		}
		var ready struct {
			NATSURL string `json:"nats_url"`
		}
		if args[0] == "node" {
			args = append(args, "--modules", modules, "--cache", cache)
		}
		startProgram(t, testFiles.program(t), filepath.Join(data, args[0]+".json"), &ready, args...)
		if args[0] == "origin" {
			natsURL = ready.NATSURL
		}
	}
	for _, b := range operationsBlocks(t, "Containers") {
		for line := range strings.Lines(b.text) {
			const compose = "docker compose -f edge/compose.yml "
			command, isCompose := strings.CutPrefix(strings.TrimSpace(line), compose)
			inside, isExec := strings.CutPrefix(command, "exec -T origin /usr/bin/")
			switch {
			case strings.HasPrefix(line, "docker build "), strings.HasPrefix(line, "ch"): // of files that are there
				for _, name := range regexp.MustCompile(`\w+\.(creds|pgpass)`).FindAllString(line, -1) {
					if !there(filepath.Join(dir, name)) {
						t.Errorf("%s: there is no such file", strings.TrimSpace(line))
					}
				}
			case strings.HasPrefix(line, "(umask 077; "):
				if out, err := exec.Command("sh", "-euc", strings.ReplaceAll(line, " edge/", " "+dir+"/")).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", strings.TrimSpace(line), err, out)
				}
			case isExec:
				inside = strings.NewReplacer("/var/lib/edge", filepath.Join(dir, "origin"), "> edge/", "> "+dir+"/").Replace(inside)
				if out, err := exec.Command("sh", "-euc", inside).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", inside, err, out)
				}
			case isCompose && command == "up -d --wait origin":
				start("origin")
			case isCompose && command == "up -d":
				start("eu")
				start("us")
			default:
				t.Fatalf("a line that this test does not know: %s", line)
			}
		}
	}
	password, err := os.ReadFile(filepath.Join(dir, "postgres.password"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGPASSFILE", filepath.Join(dir, "origin.pgpass"))
	if c, err := pgx.ParseConfig(containersDatabase); err != nil || c.Password == "" || c.Password != strings.TrimSpace(string(password)) {
		t.Errorf("the origin has not the password that PostgreSQL has: %v", err)
	}
	admin, err := localClient(filepath.Join(dir, "origin"))
	if err != nil {
		t.Fatal(err)
	}
	var page adminapi.List[adminapi.Node]
	await(t, "both nodes", func() bool {
		err := admin.Call(t.Context(), "GET", "/nodes", nil, &page)
		return err == nil && len(page.Items) == 2 && page.Items[0].Connected && page.Items[1].Connected
	})
}

// TestOperationsManyOrigins does so for two origins on PostgreSQL and a cluster
// of two NATS servers.
func TestOperationsManyOrigins(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	h.database = centraltest.Postgres(t)
	for _, b := range operationsBlocks(t, "Many origins") {
		h.do(b)
		if b.host == "nats2" && b.kind == "sh" {
			h.systemctl("first", "start", "edge-origin") // as systemd does once more
		}
	}
	first, err := localClient(h.path("first", "var/lib/edge-origin"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := localClient(h.path("second", "var/lib/edge-origin"))
	if err != nil {
		t.Fatal(err)
	}
	// A node that one enrols is heard by the other, whichever NATS server it has.
	credentials, err := dev.Enrol(t.Context(), second, h.path("second", "etc/edge"), "eu")
	if err != nil {
		t.Fatal(err)
	}
	dir := h.path("node", "data")
	var ready nodeReady
	startProcess(t, filepath.Join(dir, "node.json"), &ready, "node", "--data", dir, "--region", "eu", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
		"--origin", "nats://"+h.port("10.0.0.12:4222"), "--credentials", credentials, "--modules", h.modules, "--cache", h.cache)
	h.connected("first", "eu")
	h.connected("second", "eu")
	made, err := dev.OpenAccount(t.Context(), first, filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	if status, body := request(t, "GET", ready.BaseURL+"/api/v2/public/agents/me", made.Keys.Live, ""); status != 200 {
		t.Errorf("a key that the first made, at a node that the second enrolled: %d %s", status, body)
	}
}

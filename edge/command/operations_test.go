package command

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"partneredge/edge/adminapi"
	"partneredge/edge/dev"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/centraltest"
)

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
	h.operators()
	if err := os.WriteFile(h.path("one", "var/backups/tombstones.json"), []byte(`[{"id":"lead_gone","deleted_at":"2026-01-31T12:00:00Z"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	said = ""
	for _, b := range operationsBlocks(t, "Backup and restore") {
		said += h.do(b)
	}
	for _, want := range []string{"enrol again the nodes and regions' servers", "applied  1"} {
		if !strings.Contains(said, want) {
			t.Errorf("a restore does not say %q: %s", want, said)
		}
	}
	h.connected("one", "local")
}

// operators makes a token and revokes it as OPERATIONS.md says.
func (h *hosts) operators() {
	h.t.Helper()
	admin, err := localClient(h.path("one", "var/lib/edge-origin"))
	if err != nil {
		h.t.Fatal(err)
	}
	var page adminapi.List[adminapi.Token]
	list := func() {
		h.t.Helper()
		if err := admin.Call(h.t.Context(), "GET", "/tokens", nil, &page); err != nil || len(page.Items) == 0 {
			h.t.Fatalf("tokens: %v, %v", page.Items, err)
		}
	}
	for _, b := range operationsBlocks(h.t, "Operators and their tokens") {
		if strings.Contains(b.text, "TOKEN") {
			list()
			b.text = strings.ReplaceAll(b.text, "TOKEN", page.Items[0].ID)
		}
		h.do(b)
	}
	list()
	if kim := page.Items[0]; kim.Name != "Kim" || kim.Role != "operator" || kim.ExpiresAt.IsZero() || kim.LastUsedAt.IsZero() || kim.RevokedAt.IsZero() {
		h.t.Errorf("the token that was made, used and revoked is %+v", kim)
	}
}

// TestOperationsAsked exports and deletes what OPERATIONS.md says, of an account with a
// lead, and applies the tombstones to the origin.
func TestOperationsAsked(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	h.machine("asked")
	data := h.path("asked", "var/lib/edge-origin")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
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
		for i, region := range []string{"eu", "us", "ap"} {
			own := b
			own.host, own.text = region, strings.NewReplacer("--region eu", "--region "+region, "10.0.0.31", fmt.Sprint("10.0.0.3", 1+i)).Replace(b.text)
			h.do(own)
		}
	}
	h.connected("origin", "ap", "eu", "us")
	h.prometheus()
	h.hasAdminTLS("origin")
	h.regionServer()
	h.hasAdminTLS("origin")
}

// TestOperationsUpgrade brings one machine from one build to another as OPERATIONS.md
// says, and back.
func TestOperationsUpgrade(t *testing.T) {
	t.Parallel()
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	for _, b := range operationsBlocks(t, "One machine") {
		h.do(b)
	}
	h.connected("one", "local")
	next := filepath.Join(t.TempDir(), "edge")
	if err := buildProgram(next, "next", nil); err != nil {
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
	h.systemctl("one", "daemon-reload", "")
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
	dir, database := t.TempDir(), centraltest.Postgres(t)
	var origin originReady
	var running *process
	start := func(service string) {
		t.Helper()
		data := filepath.Join(dir, service)
		var args []string
		for _, word := range commands[service] {
			if strings.HasPrefix(word, "127.") || strings.HasPrefix(word, "localhost") {
				t.Errorf("%s: nobody reaches %s in a container", service, word)
			}
			word = strings.NewReplacer("/var/lib/edge", data, "/etc/edge/node.creds", filepath.Join(dir, service+".creds"),
				"/etc/edge/release.pub", filepath.Join(dir, "release.pub"), containersDatabase, database, "nats://origin:4222", origin.NATSURL).Replace(word)
			if word == "0.0.0.0:4222" && origin.NATSURL != "" { // where the nodes look for it
				word = strings.TrimPrefix(origin.NATSURL, "nats://")
			} else if strings.HasPrefix(word, "0.0.0.0:") {
				word = "127.0.0.1:0"
			}
			args = append(args, word)
		}
		var ready any = &origin
		if args[0] == "node" {
			ready, args = new(nodeReady), append(args, "--modules", modules, "--cache", cache)
		}
		p := startProgram(t, testFiles.program(t), filepath.Join(data, args[0]+".json"), ready, args...)
		if service == "origin" {
			running = p
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "origin", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var token, keys string // before they are replaced
	inContainer := regexp.MustCompile(`docker run .* busybox:1\.37 `)
	said := ""
	for _, b := range operationsBlocks(t, "Containers") {
		for line := range strings.Lines(b.text) {
			const compose = "docker compose -f edge/compose.yml "
			line = strings.ReplaceAll(line, compose+"exec -T origin /usr/bin/edge ", "build/edge ")
			command, isCompose := strings.CutPrefix(strings.TrimSpace(line), compose)
			switch {
			case strings.HasPrefix(line, "docker build "), strings.HasPrefix(line, "ch"): // of files that are there
				for _, name := range regexp.MustCompile(`\w+\.(creds|pgpass)`).FindAllString(line, -1) {
					if !there(filepath.Join(dir, name)) {
						t.Errorf("%s: there is no such file", strings.TrimSpace(line))
					}
				}
			case strings.HasPrefix(line, "origin=$("): // of whose volumes; here it is a folder
			case strings.HasPrefix(line, "(umask 077; "), strings.HasPrefix(line, "build/edge "), inContainer.MatchString(line):
				line = inContainer.ReplaceAllString(line, "")
				line = strings.NewReplacer("build/edge ", testFiles.program(t)+" ", " edge/", " "+dir+"/", "build/modules", modules,
					"/var/lib/edge", filepath.Join(dir, "origin"), "http://127.0.0.1:8090", origin.AdminURL).Replace(line)
				out, err := exec.Command("sh", "-euc", line).CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", strings.TrimSpace(line), err, out)
				}
				said += string(out)
			case isCompose && command == "up -d --wait origin":
				start("origin")
			case isCompose && command == "stop origin":
				token, keys = read(adminTokenFile), read(secretsFile)
				running.terminate()
			case isCompose && command == "up -d":
				start("eu")
				start("us")
			default:
				t.Fatalf("a line that this test does not know: %s", line)
			}
		}
	}
	if !strings.Contains(said, "serving  2 of 2 nodes") {
		t.Errorf("the nodes do not run the release: %s", said)
	}
	if now := read(secretsFile); token == "" || read(adminTokenFile) == token || strings.Count(now, "\n") != 1 || strings.Contains(keys, now) {
		t.Errorf("the secrets of the origin are not replaced: %d lines of secrets.keys", strings.Count(now, "\n"))
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
	databases := map[string]string{}
	for _, b := range operationsBlocks(t, "Many origins") {
		if before, _, copied := strings.Cut(b.text, "/admin.token"); copied && !strings.Contains(before, "/readyz") {
			t.Errorf("the first origin need not have made its token yet: %s", b.text)
		}
		if b.kind == "env" {
			databases[b.host] = regexp.MustCompile(`--database (\S+)`).FindStringSubmatch(b.text)[1]
		}
		h.do(b)
		if b.host == "nats2" && b.kind == "sh" {
			h.systemctl("first", "start", "edge-origin") // as systemd does once more
		}
	}
	for _, host := range []string{"first", "second"} {
		file := h.env(host, "edge-origin")["PGPASSFILE"]
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file of passwords on %s: %v, %v", host, info, err)
		}
		t.Setenv("PGPASSFILE", file)
		if c, err := pgx.ParseConfig(databases[host]); err != nil || c.Password != "PASSWORD" || c.TLSConfig == nil || c.TLSConfig.InsecureSkipVerify {
			t.Errorf("the origin on %s has no password for PostgreSQL, or does not verify it: %v", host, err)
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
		"--origin", "nats://"+h.port("10.0.0.12:4222"), "--credentials", credentials, "--modules", h.modules, "--cache", h.cache, "--module-cpu", "10s")
	h.connected("first", "eu")
	h.connected("second", "eu")
	made, err := dev.OpenAccount(t.Context(), first, filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	known(t, ready.BaseURL, made.Keys.Live) // which the first made, and the second enrolled the node
	h.rotateSecrets(ready.BaseURL, made)
}

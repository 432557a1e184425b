package command

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"partneredge/wasm/contract"
)

// dashboard holds the parts of dashboard.json that are checked.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }

		FieldConfig struct{ Defaults struct{ Unit string } }
		Targets     []struct{ Expr, LegendFormat string }
	}
}

var (
	promString   = regexp.MustCompile(`"[^"]*"`)
	promSelector = regexp.MustCompile(`\b((?:edge|process|go)_[a-z0-9_]+|up)(?:\{([^}]*)\})?`)
	promBy       = regexp.MustCompile(`by \(([a-z_, ]*)\)`)
	promMatcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	promLegend   = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
	promSample   = regexp.MustCompile(`^([a-z0-9_]+)(?:\{(.*)\})? `)
)

// TestDashboard: each metric and each label that the dashboard asks for is there
// at a node or an origin to which everything has happened once.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	have := everyMetric(t)
	ids, places := map[int]bool{}, map[[2]int]bool{}
	asked := 0
	for _, p := range d.Panels {
		place := [2]int{p.GridPos.X, p.GridPos.Y}
		if ids[p.ID] || places[place] || p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d %q: no title, nothing asked, or in another's place", p.ID, p.Title)
		}
		ids[p.ID], places[place] = true, true
		for _, target := range p.Targets {
			asked += holdExpr(t, have, p.Title, target.Expr, target.LegendFormat)
			holdUnit(t, p.Title, p.FieldConfig.Defaults.Unit, target.Expr)
		}
	}
	for _, metric := range []string{"edge_node_release", "edge_outbox_oldest_seconds", "edge_webhook_overdue_seconds", "edge_origin_node_refusals_total", "edge_origin_keys_expiring"} {
		if !strings.Contains(string(text), metric) {
			t.Errorf("no panel shows %s", metric)
		}
	}
	if asked < 20 {
		t.Errorf("only %d metrics are asked for: the dashboard was not understood", asked)
	}
}

// holdUnit holds the unit of a panel to what it shows.
func holdUnit(t *testing.T, title, unit, expr string) {
	t.Helper()
	shows, known := map[string]string{
		"s": "_seconds", "bytes": "_bytes", "reqps": "rate(", "percentunit": " / ", "none": "", "short": "",
	}[unit]
	if !known || !strings.Contains(expr, shows) {
		t.Errorf("%s: its unit is %q, and it shows %s", title, unit, expr)
	}
}

// TestAlerts: the rules ask for metrics and labels that are there.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	have := everyMetric(t)
	have["up"] = nil // Prometheus's own
	rules := regexp.MustCompile(`(?s)\n +expr: (?:>-\n)?(.+?)\n +(?:for|labels):`).FindAllSubmatch(text, -1)
	if want := strings.Count(string(text), "- alert:"); len(rules) != want || want == 0 {
		t.Fatalf("%d expressions of %d rules were understood", len(rules), want)
	}
	for _, rule := range rules {
		holdExpr(t, have, "alerts.yml", string(rule[1]), "")
	}
}

// TestAlertsHaveAPage: OPERATIONS.md says of each alert where to read, and links sections that
// it has.
func TestAlertsHaveAPage(t *testing.T) {
	alerts, err := os.ReadFile("../alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	operations, err := os.ReadFile("../OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, index, found := strings.Cut(string(operations), "| What is seen | Where to read |\n|---|---|\n")
	if !found {
		t.Fatal("no index of what is seen")
	}
	index, _, _ = strings.Cut(index, "\n\n")
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllSubmatch(alerts, -1) {
		if !strings.Contains(index, "`"+string(m[1])+"`") {
			t.Errorf("nothing is said of %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`(Edge\\w+)`").FindAllStringSubmatch(index, -1) {
		if !strings.Contains(string(alerts), "- alert: "+m[1]+"\n") {
			t.Errorf("%s is no alert", m[1])
		}
	}
	for line := range strings.Lines(index) {
		pages := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if strings.HasPrefix(pages[1], "the last line") {
			continue
		}
		for _, link := range strings.Split(pages[1], "; ") {
			page, anchor, _ := strings.Cut(strings.Trim(link, "[)"), "](")
			if !strings.Contains(string(operations), "\n## "+page+"\n") {
				t.Errorf("there is no page %s", page)
			}
			if want := "#" + strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(page)); anchor != want {
				t.Errorf("the page %s is linked as %q, want %q", page, anchor, want)
			}
		}
	}
}

// TestAlertsNameCommands: the commands that an alert names are there, with their flags.
func TestAlertsNameCommands(t *testing.T) {
	alerts, err := os.ReadFile("../alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`edge ([a-z]+ [a-z]+(?: list)?)((?: --[a-z-]+ \w+)*)`).FindAllSubmatch(alerts, -1)
	if len(named) < 5 {
		t.Errorf("%d commands are named", len(named))
	}
	for _, m := range named {
		cmd, rest, err := newRoot("test").Find(strings.Fields(string(m[1])))
		if err != nil || len(rest) > 0 || cmd.HasSubCommands() {
			t.Errorf("%s: no command of this name: %v", m[0], err)
			continue
		}
		if err := cmd.ParseFlags(strings.Fields(string(m[2]))); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
	}
}

// TestAlertsFire has Prometheus's own tool check the rules, and when they fire.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("EDGE_REQUIRE_PROMTOOL") != "" {
			t.Fatal("no promtool, and EDGE_REQUIRE_PROMTOOL is set")
		}
		t.Skip("NOT TESTED: the alerting rules, for want of promtool")
	}
	for _, args := range [][]string{{"check", "rules", "../alerts.yml"}, {"test", "rules", "testdata/alerts.yml"}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// holdExpr holds what an expression and its legend ask for to the metrics and labels
// that are there, and returns how many metrics it asks for.
func holdExpr(t *testing.T, have map[string][]string, title, expr, legend string) (asked int) {
	t.Helper()
	used := promSelector.FindAllStringSubmatch(expr, -1)
	if len(used) == 0 {
		t.Errorf("%s: %s asks for nothing", title, expr)
	}
	for _, m := range used {
		labels, found := have[m[1]]
		if !found {
			t.Errorf("%s: no metric %s", title, m[1])
			continue
		}
		var names []string
		for _, matcher := range promMatcher.FindAllStringSubmatch(promString.ReplaceAllString(m[2], ""), -1) {
			names = append(names, matcher[1])
		}
		// A grouping is not by what only says of what region, or how old, another metric is.
		if strings.HasPrefix(m[1], "edge_") && !strings.HasSuffix(m[1], "_info") {
			for _, by := range promBy.FindAllStringSubmatch(expr, -1) {
				for name := range strings.SplitSeq(by[1], ",") {
					names = append(names, strings.TrimSpace(name))
				}
			}
			for _, label := range promLegend.FindAllStringSubmatch(legend, -1) {
				names = append(names, label[1])
			}
		}
		for _, name := range names {
			if name == "instance" || name == "job" { // which Prometheus adds
				continue
			}
			if !slices.Contains(labels, name) {
				t.Errorf("%s: %s has no label %s, only %v", title, m[1], name, labels)
			}
		}
	}
	return len(used)
}

// everyMetric are the names in /metrics of a node and its origin, with their
// labels, once each thing has happened that makes one.
func everyMetric(t *testing.T) map[string][]string {
	t.Helper()
	url, ca, deliveries := endpoint(t)
	d := startDevForTest(t, t.TempDir(), func(c *devConfig) {
		c.webhookAllow = prefixes{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
		c.webhookCA = ca
	})
	fixture := newAdminFixture(d)
	account := fixture.Account(t, contract.Account{Name: "Seen", Email: "eva@example.com", Agent: "Eva Event", Live: true})
	subscribeFor(t, fixture, account, "live", url+"/live", []string{"client.contacted"})
	fixture.call(t, "POST", "/accounts/"+account+"/contacts", map[string]string{"client_id": "c", "channel": "phone"}, nil)
	receive(t, deliveries)
	base := d.nodes[0].URL() + "/api/v2/public"
	for path, body := range map[string]string{"/agents/me": "", "/leads": `{"name":"Sam","phone":"+1 555 010 0000"}`} {
		method := "GET"
		if body != "" {
			method = "POST"
		}
		if status, answer := request(t, method, base+path, d.account.Keys.Live, body); status >= 300 {
			t.Fatalf("%s: %d %s", path, status, answer)
		}
	}
	counted := regexp.MustCompile(`(?m)^edge_webhook_tries_total\{state="delivered"\} [1-9]`)
	await(t, "the try to be counted", func() bool {
		_, text := request(t, "GET", d.origin.AdminURL()+"/metrics", "", "")
		return counted.Match(text)
	})
	have := map[string][]string{}
	readMetrics(t, d.origin.AdminURL()+"/metrics", have)
	readMetrics(t, d.nodes[0].MetricsURL()+"/metrics", have)
	return have
}

func readMetrics(t *testing.T, url string, into map[string][]string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s %s", url, resp.Status, body)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		m := promSample.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		if into[m[1]] == nil {
			into[m[1]] = []string{}
		}
		for _, label := range promMatcher.FindAllStringSubmatch(promString.ReplaceAllString(m[2], ""), -1) {
			if !slices.Contains(into[m[1]], label[1]) {
				into[m[1]] = append(into[m[1]], label[1])
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

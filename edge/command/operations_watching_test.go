package command

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"partneredge/edge/addresstest"
)

// prometheus has Prometheus check what OPERATIONS.md gives it for three regions, and scrape
// their nodes and the origin by it.
func (h *hosts) prometheus() {
	h.t.Helper()
	for _, b := range operationsBlocks(h.t, "Watching") {
		b.text = strings.Replace(b.text, "scrape_interval: 15s", "scrape_interval: 1s", 1)
		h.do(b)
	}
	config := h.path("prometheus", "etc/prometheus/prometheus.yml")
	rules, err := os.ReadFile("../alerts.yml")
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(h.path("prometheus", "etc/prometheus/alerts.yml"), rules, 0o600); err != nil {
		h.t.Fatal(err)
	}
	promtool, missing := exec.LookPath("promtool")
	program, err := exec.LookPath("prometheus")
	if missing != nil || err != nil {
		if os.Getenv("EDGE_REQUIRE_PROMTOOL") != "" {
			h.t.Fatal("no promtool or prometheus, and EDGE_REQUIRE_PROMTOOL is set")
		}
		h.t.Log("NOT TESTED: OPERATIONS' prometheus.yml, for want of promtool or prometheus")
		return
	}
	if out, err := exec.CommandContext(h.t.Context(), promtool, "check", "config", config).CombinedOutput(); err != nil {
		h.t.Fatalf("promtool check config: %v\n%s", err, out)
	}
	listen := addresstest.Fixed(h.t)
	cmd := exec.CommandContext(h.t.Context(), program, "--config.file", config, "--storage.tsdb.path", h.t.TempDir(), "--web.listen-address", listen)
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	up := func(job string) int {
		resp, err := http.Get("http://" + listen + "/api/v1/query?query=" + url.QueryEscape(`up{job="`+job+`"} == 1`))
		if err != nil {
			return 0 // it starts
		}
		defer resp.Body.Close()
		var found struct{ Data struct{ Result []any } }
		if err := json.NewDecoder(resp.Body).Decode(&found); err != nil {
			return 0
		}
		return len(found.Data.Result)
	}
	await(h.t, "Prometheus to scrape all", func() bool { return up("edge-origin") == 1 && up("edge-node") == 3 })
}

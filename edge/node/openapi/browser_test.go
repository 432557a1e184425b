package openapi_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"partneredge/edge/browsertest"
	"partneredge/edge/node/openapi"
)

// TestInBrowser draws each page on a telephone and on a desktop, dark and light: none is
// wider than its window, and axe finds nothing where scripts/clienttools has brought it.
func TestInBrowser(t *testing.T) {
	ctx := browsertest.Start(t, "the reference and the guide", 5*time.Minute)
	server := httptest.NewServer(openapi.Handler())
	defer server.Close()
	axe, err := os.ReadFile("../../../build/clienttools/node_modules/axe-core/axe.min.js")
	if err != nil && os.Getenv("EDGE_REQUIRE_CLIENTTOOLS") != "" {
		t.Fatal(err)
	}
	for _, name := range []string{"", "quickstart", "keys", "errors", "limits", "pagination", "leads", "webhooks", "verifying", "testing", "going-live", "changelog"} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{390, 1280} {
				shown := fmt.Sprintf("docs-%s-%s-%d", name, scheme, width)
				if err := chromedp.Do(ctx, browsertest.Look(scheme, width), chromedp.Navigate(server.URL+"/docs/"+name), chromedp.WaitVisible(`main h1`)); err != nil {
					t.Fatalf("%s: %v", shown, err)
				}
				browsertest.Shoot(t, ctx, shown)
				if axe != nil {
					for _, finding := range findings(t, ctx, string(axe)) {
						t.Errorf("%s: axe: %s", shown, finding)
					}
				}
			}
		}
	}
	t.Run("axe", func(t *testing.T) {
		if axe == nil {
			t.Skip("NOT TESTED: accessibility of the reference and the guide, for which scripts/clienttools brings axe")
		}
	})
}

// findings runs axe in the page that is shown.
func findings(t *testing.T, ctx context.Context, axe string) []string {
	t.Helper()
	browsertest.Value[bool](t, ctx, axe+"\n;true")
	browsertest.Value[bool](t, ctx, `window.found = undefined; axe.run().then(r => window.found = r.violations.flatMap(v => v.nodes.map(n => v.id + " " + n.target.join(" ") + ": " + n.failureSummary)).join("\u0000")); true`)
	found, err := chromedp.Run(ctx, chromedp.Poll[string](`window.found === undefined ? false : (window.found || "none")`, chromedp.WithPollingTimeout(time.Minute)))
	if err != nil {
		t.Fatal(err)
	}
	if found == "none" {
		return nil
	}
	return strings.Split(found, "\x00")
}

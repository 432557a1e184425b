package openapi_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"partneredge/edge/node/openapi"
)

// chromium starts a headless browser, or skips the test loudly where there is
// none. EDGE_REQUIRE_CHROMIUM=1 makes that a failure.
func chromium(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		const text = "NOT TESTED: the reference and the guide in a browser (Debian: apt-get install chromium)"
		if os.Getenv("EDGE_REQUIRE_CHROMIUM") == "1" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-background-networking", true),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute),
	)...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser
		stop()
	})
	return ctx
}

// TestInBrowser draws each page on a telephone and on a desktop, dark and light: none is
// wider than its window, and axe finds nothing where scripts/clienttools has brought it.
func TestInBrowser(t *testing.T) {
	ctx := chromium(t)
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
				if err := chromedp.Do(ctx, look(scheme, width), chromedp.Navigate(server.URL+"/docs/"+name), chromedp.WaitVisible(`main h1`)); err != nil {
					t.Fatalf("%s: %v", shown, err)
				}
				if over := value[int](t, ctx, `document.documentElement.scrollWidth - window.innerWidth`); over > 0 {
					t.Errorf("%s: the page is %d wider than the window", shown, over)
				}
				image, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(t.ArtifactDir(), shown+".png"), image, 0o600); err != nil {
					t.Fatal(err)
				}
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
	value[bool](t, ctx, axe+"\n;true")
	value[bool](t, ctx, `window.found = undefined; axe.run().then(r => window.found = r.violations.flatMap(v => v.nodes.map(n => v.id + " " + n.target.join(" ") + ": " + n.failureSummary)).join("\u0000")); true`)
	found, err := chromedp.Run(ctx, chromedp.Poll[string](`window.found === undefined ? false : (window.found || "none")`, chromedp.WithPollingTimeout(time.Minute)))
	if err != nil {
		t.Fatal(err)
	}
	if found == "none" {
		return nil
	}
	return strings.Split(found, "\x00")
}

// value of an expression in the page.
func value[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%.80s: %v", expression, err)
	}
	return v
}

// look sets the colour scheme and the width of the window.
func look(scheme string, width int64) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(
		chromedp.EmulateViewport(width, 800),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}),
	)
}

package browsertest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestAxeFindsViolations shows axe a page with three faults, each of which it finds, and the
// same page without them, in which it finds nothing.
func TestAxeFindsViolations(t *testing.T) {
	axe := ReadAxe(t, "../..")
	if axe == "" {
		t.Skip("NOT TESTED: that axe finds anything; scripts/clienttools brings it")
	}
	const head = `<!doctype html><html lang="en"><head><title>Keys</title></head><body><main><h1>Keys</h1>`
	pages := map[string]string{
		"/sound":  head + `<img src="data:," alt="A key"><label>Label <input></label><p style="color: #222; background: #fff">Text</p></main></body></html>`,
		"/faulty": head + `<img src="data:,"><input><p style="color: #ccc; background: #fff">Text</p></main></body></html>`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(pages[r.URL.Path]))
	}))
	defer server.Close()
	ctx := Start(t, "what axe finds")
	for page, want := range map[string][]string{"/sound": nil, "/faulty": {"color-contrast", "image-alt", "label"}} {
		if _, err := chromedp.Run(ctx, chromedp.Navigate(server.URL+page)); err != nil {
			t.Fatal(err)
		}
		found := axe.find(t, ctx)
		var rules []string
		for _, finding := range found {
			rule, _, _ := strings.Cut(finding, " ")
			rules = append(rules, rule)
		}
		if slices.Sort(rules); !slices.Equal(rules, want) {
			t.Errorf("%s: axe finds %q, want faults of %v", page, found, want)
		}
	}
}

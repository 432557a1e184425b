package openapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"partneredge/edge/browsertest"
	"partneredge/edge/node/openapi"
)

// TestInBrowser draws each page on telephones and on a desktop, dark and light: none is
// wider than its window or makes the browser ask for what is not served, and axe finds
// nothing where scripts/clienttools has brought it.
func TestInBrowser(t *testing.T) {
	ctx := browsertest.Start(t, "the reference and the guide")
	handler := openapi.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(openapi.Paths(), strings.TrimSuffix(r.URL.Path, "/")) {
			t.Errorf("the browser asks for %s", r.URL)
		}
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	axe := browsertest.ReadAxe(t, "../../..")
	for _, name := range []string{"", "quickstart", "keys", "errors", "clients", "limits", "pagination", "leads", "webhooks", "verifying", "testing", "going-live", "changelog"} {
		if err := chromedp.Do(ctx, chromedp.Navigate(server.URL+"/docs/"+name), chromedp.WaitVisible(`main h1`)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// The pages have no script: what is shown depends on the window alone.
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{320, 390, 1280} {
				shown := fmt.Sprintf("docs-%s-%s-%d", name, scheme, width)
				if err := chromedp.Do(ctx, browsertest.Look(scheme, width), chromedp.WaitVisible(`main h1`)); err != nil {
					t.Fatalf("%s: %v", shown, err)
				}
				browsertest.Shoot(t, ctx, shown)
				if (scheme == "dark") == (width < 1280) { // what axe finds is of a scheme or of a width
					axe.Check(t, ctx, shown)
				}
			}
		}
	}
	axe.Tell(t, "the reference and the guide")
}

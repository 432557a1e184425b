package browsertest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// Axe looks for what keeps people from using a page, by the script of axe-core. ""
// looks at nothing.
type Axe string

// ReadAxe reads the script that scripts/clienttools brings below the repository's root.
// Where it is missing the result is "", or the test fails when EDGE_REQUIRE_CLIENTTOOLS
// is set.
func ReadAxe(t *testing.T, root string) Axe {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(root, "build/clienttools/node_modules/axe-core/axe.min.js"))
	if err != nil && os.Getenv("EDGE_REQUIRE_CLIENTTOOLS") != "" {
		t.Fatal(err)
	}
	return Axe(script)
}

// Tell skips a subtest with a message that nothing was looked at, if there is no script.
func (a Axe) Tell(t *testing.T, what string) {
	t.Run("axe", func(t *testing.T) {
		if a == "" {
			t.Skipf("NOT TESTED: accessibility of %s, for which scripts/clienttools brings axe", what)
		}
	})
}

// Check fails the test for each finding in the page that is shown, named as in
// pictures.
func (a Axe) Check(t *testing.T, ctx context.Context, shown string) {
	t.Helper()
	if a == "" {
		return
	}
	for _, finding := range a.find(t, ctx) {
		t.Errorf("%s: axe: %s", shown, finding)
	}
}

// find returns what axe finds in the page that is shown, each with its rule in front.
func (a Axe) find(t *testing.T, ctx context.Context) []string {
	t.Helper()
	if !Value[bool](t, ctx, `"axe" in window`) { // once a page
		Value[bool](t, ctx, string(a)+"\n;true")
	}
	found, err := chromedp.Run(ctx, chromedp.Evaluate[string](`axe.run({resultTypes: ["violations"]}).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + " " + n.target.join(" ") + ": " + n.failureSummary)).join("\u0000"))`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if found == "" {
		return nil
	}
	return strings.Split(found, "\x00")
}

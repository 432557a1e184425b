// Package browsertest drives Chromium in tests, and checks pages for accessibility.
package browsertest

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// most bounds a test's browser, on a busy machine.
const most = 15 * time.Minute

// Start starts a headless Chromium, which ends with the test or after most. Where there
// is none, the test of what is skipped, or fails when EDGE_REQUIRE_CHROMIUM is 1. The
// options come after those that all tests have.
func Start(t *testing.T, what string, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		text := "NOT TESTED: " + what + " in a browser (Debian: apt-get install chromium)"
		if os.Getenv("EDGE_REQUIRE_CHROMIUM") == "1" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	ctx, stop := context.WithTimeout(t.Context(), most)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewExecAllocator(ctx, slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-background-networking", true),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(most),
	}, options)...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser; the test may have ended it
		stop()
	})
	return ctx
}

// Shoot fails the test if the page that is shown is wider than its window. With
// -artifacts it keeps a picture of the page, as NAME.png.
func Shoot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if over := Value[int](t, ctx, `document.documentElement.scrollWidth - window.innerWidth`); over > 0 {
		t.Errorf("%s: the page is %d wider than the window", name, over)
	}
	if kept := flag.Lookup("test.artifacts"); kept == nil || kept.Value.String() != "true" {
		return // drawing it takes as long as half of all else
	}
	image, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), image, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Value returns the value of an expression in the page that is shown.
func Value[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%.80s: %v", expression, err)
	}
	return v
}

// Look sets the colour scheme, dark or light, and the width of the window in pixels.
func Look(scheme string, width int64) chromedp.Action[chromedp.Void] {
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

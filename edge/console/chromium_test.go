package console_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
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
		const text = "NO CHROMIUM: the console was not tested in a browser (Debian: apt-get install chromium)"
		if os.Getenv("EDGE_REQUIRE_CHROMIUM") == "1" {
			t.Fatal(text)
		}
		fmt.Fprintln(os.Stderr, text)
		t.Skip(text)
	}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-background-networking", true),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute),
	)...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits for the browser; the test may have ended it
		stop()
	})
	return ctx
}

// TestInBrowser walks through the console in a real browser, in the dark, in the
// light and on a telephone.
func TestInBrowser(t *testing.T) {
	ctx := chromium(t)
	f := newFixture(t)
	for region, rate := range map[string]uint64{"eu-west": 240, "us-east": 130, "ap-south": 60} {
		f.startNode(region, rate)
	}
	var mu sync.Mutex
	var complaints []string
	complain := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		complaints = append(complaints, text)
	}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded: // such as what the policy refused to load
			if e.Entry.Level == log.EntryLevelVerbose { // advice
				return
			}
			complain(fmt.Sprint(e.Entry.Level, " ", e.Entry.Text, " ", e.Entry.URL))
		case *runtime.EventExceptionThrown:
			complain(e.ExceptionDetails.Text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	run := func(what string, actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, actions...); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	f.rollOut("eu-west")
	base := f.AdminURL() + "/console/"
	shoot := func(name string) {
		t.Helper()
		if over := value[int](t, ctx, `document.documentElement.scrollWidth - window.innerWidth`); over > 0 {
			t.Errorf("%s: the page is %d wider than the window", name, over)
		}
		image, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), image, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	run("login", look("light", 1280), chromedp.Navigate(base), chromedp.WaitVisible(`input[name=token]`))
	shoot("login-light")
	// By keyboard alone: the field has the focus, Enter sends the form.
	run("typing", chromedp.SendKeys(`input[name=token]`, f.Token()+kb.Enter), chromedp.WaitVisible(`.charts`))
	run("waiting to be live", chromedp.WaitVisible(`.pulse.on`))
	const drawn = `document.querySelectorAll(".chart path.line").length >= 15 && parseFloat(document.querySelector(".chart .now").textContent) > 300`
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](drawn, chromedp.WithPollingTimeout(time.Minute))); err != nil {
		t.Fatalf("waiting for charts: %v", err)
	}
	shoot("overview-light")

	// The first stop of the Tab key is the way past the navigation, and it shows.
	run("tab", chromedp.Navigate(base+"accounts"), chromedp.KeyEvent(kb.Tab))
	focused := value[string](t, ctx, `document.activeElement.className`)
	if left := value[float64](t, ctx, `document.activeElement.getBoundingClientRect().left`); focused != "skip" || left < 0 {
		t.Errorf("the first stop is %q at %v", focused, left)
	}

	run("an account", chromedp.Navigate(base+"accounts/"+f.account.ID), chromedp.Click(`details > summary`),
		chromedp.SendKeys(`input[name=label]`, "website"), chromedp.Click(`details form button.primary`), chromedp.WaitVisible(`#secret`))
	if secret := value[string](t, ctx, `document.getElementById("secret").textContent`); !strings.HasPrefix(secret, "svc_live_") {
		t.Errorf("the key is %q", secret)
	}
	shoot("account-light")
	if cookies := value[string](t, ctx, `document.cookie`); cookies != "" {
		t.Errorf("scripts can read %q", cookies)
	}

	for _, scheme := range []string{"dark", "light"} {
		for _, width := range []int64{1280, 390} {
			for _, page := range []string{"", "nodes", "releases", "accounts", "accounts/" + f.account.ID, "webhooks", "webhooks/" + f.webhook.ID, "quarantine", "quarantine/" + f.refuse("lead_shown"), "lockouts", "audit", "tokens"} {
				name, _, _ := strings.Cut(page, "/")
				if name == "" {
					name = "overview"
				}
				if strings.Contains(page, "/") {
					name += "-one"
				}
				run(page, look(scheme, width), chromedp.Navigate(base+page), chromedp.WaitVisible(`main h1`))
				shoot(fmt.Sprintf("%s-%s-%d", name, scheme, width))
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, c := range complaints {
		t.Errorf("the browser complains: %s", c)
	}
}

// value of an expression in the page.
func value[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
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

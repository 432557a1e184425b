package console_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"partneredge/edge/adminapi"
	"partneredge/edge/browsertest"
	"partneredge/edge/wire"
	"partneredge/store"
)

// TestInBrowser walks through the console in a real browser, in the dark, in the
// light and on a telephone.
func TestInBrowser(t *testing.T) {
	ctx := browsertest.Start(t, "the console")
	f := newFixture(t)
	for region, rate := range map[string]uint64{"eu-west": 240, "ap-south": 60} {
		f.startNode(region, rate)
	}
	f.startServing("us-east", 130, &wire.ReleaseStatus{Digest: shipped, Version: "1.4.0"})
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
	soon := time.Now().Add(5 * 24 * time.Hour).UTC().Format(time.RFC3339)
	var used adminapi.MintedKey
	f.call("POST", "/accounts/"+f.account.ID+"/keys", map[string]any{"environment": "test", "scopes": []string{"read:agent"}, "expires_at": soon}, &used)
	f.use(used.Key.ID)
	f.rollOut("eu-west")
	base := f.AdminURL() + "/console/"
	shoot := func(name string) {
		t.Helper()
		browsertest.Shoot(t, ctx, name)
	}

	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	run("login", browsertest.Look("light", 1280), chromedp.Navigate(base), chromedp.WaitVisible(`input[name=token]`))
	shoot("login-light")
	// By keyboard alone: the field has the focus, Enter sends the form.
	run("typing", chromedp.SendKeys(`input[name=token]`, f.Token()+kb.Enter), chromedp.WaitVisible(`.charts`))
	run("waiting to be live", chromedp.WaitVisible(`.pulse.on`))
	const drawn = `document.querySelectorAll(".chart path.line").length >= 15 && parseFloat(document.querySelector(".chart .now").textContent) > 300`
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](drawn, chromedp.WithPollingTimeout(10*time.Minute))); err != nil {
		t.Fatalf("waiting for charts: %v", err)
	}
	shoot("overview-light")

	// The first stop of the Tab key is the way past the navigation, and it shows.
	run("tab", chromedp.Navigate(base+"accounts"), chromedp.KeyEvent(kb.Tab))
	focused := browsertest.Value[string](t, ctx, `document.activeElement.className`)
	if left := browsertest.Value[float64](t, ctx, `document.activeElement.getBoundingClientRect().left`); focused != "skip" || left < 0 {
		t.Errorf("the first stop is %q at %v", focused, left)
	}

	run("an account", chromedp.Navigate(base+"accounts/"+f.account.ID), chromedp.Click(`details > summary`),
		chromedp.SendKeys(`input[name=label]`, "website"), chromedp.Click(`details form button.primary`), chromedp.WaitVisible(`#secret`))
	if secret := browsertest.Value[string](t, ctx, `document.getElementById("secret").textContent`); !strings.HasPrefix(secret, "svc_live_") {
		t.Errorf("the key is %q", secret)
	}
	shoot("account-light")
	if cookies := browsertest.Value[string](t, ctx, `document.cookie`); cookies != "" {
		t.Errorf("scripts can read %q", cookies)
	}

	for _, width := range []int64{1280, 390} {
		run("the account's actions", browsertest.Look("light", width), chromedp.Navigate(base+"accounts/"+f.account.ID), chromedp.WaitVisible(`a[href$="leads.csv"]`))
		if gap := browsertest.Value[float64](t, ctx, gapOfLeads); gap < 8 {
			t.Errorf("at %d the download of leads is %v px below the form", width, gap)
		}
	}

	f.tryDelivery()
	deliveries := f.deliveries()
	drawn4(t, ctx, base, "", []string{
		"", "nodes", "releases", "accounts", "accounts/" + f.account.ID, "keys/" + used.Key.ID, "webhooks", "webhooks/" + f.webhook.ID, "deliveries", "deliveries/" + deliveries[0],
		"events/" + f.eventOf(deliveries[0]), "quarantine", "quarantine/" + f.refuse("lead_shown"), "requests?q=" + f.account.ID, "lockouts", "audit", "tokens",
	})
	mu.Lock()
	defer mu.Unlock()
	for _, c := range complaints {
		t.Errorf("the browser complains: %s", c)
	}
}

// TestRolloutIsNamedInBrowser: the question before a rollout names what is chosen.
func TestRolloutIsNamedInBrowser(t *testing.T) {
	ctx := browsertest.Start(t, "the question before a rollout")
	f := newEmptyFixture(t)
	f.enrol("Node of eu-west", "eu-west")
	for i, version := range []string{"1.4.0", "1.5.0"} {
		if _, _, err := f.db.AddRelease(t.Context(), store.Release{Version: version, Digest: fmt.Sprintf("sha256:%064x", i)}); err != nil {
			t.Fatal(err)
		}
	}
	base := f.AdminURL() + "/console/"
	if err := chromedp.Do(ctx, browsertest.Look("light", 1280), chromedp.Navigate(base), chromedp.WaitVisible(`input[name=token]`),
		chromedp.SendKeys(`input[name=token]`, f.Token()+kb.Enter), chromedp.WaitVisible(`.charts`),
		chromedp.Navigate(base+"releases"), chromedp.Click(`details > summary`), chromedp.WaitVisible(`details form button.primary`)); err != nil {
		t.Fatal(err)
	}
	ask := `window.confirm = (question) => { window.asked = question; return false; };
		document.querySelector("details form button.primary").click(); window.asked`
	if got, want := browsertest.Value[string](t, ctx, ask), "Roll this release out?\nrelease: 1.5.0\nevery node"; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
	choose := `document.querySelector("select[name=release]").selectedIndex = 1; document.querySelector("input[name=region]").checked = true; `
	if got, want := browsertest.Value[string](t, ctx, choose+ask), "Roll this release out?\nrelease: 1.4.0\nregion: eu-west"; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
	for nodes, want := range map[string]string{"node_1 node_2": "nodes: node_1, node_2\nand region: eu-west", " , ": "region: eu-west"} {
		name := `document.querySelector("input[name=nodes]").value = "` + nodes + `"; `
		if got, want := browsertest.Value[string](t, ctx, name+ask), "Roll this release out?\nrelease: 1.4.0\n"+want; got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
	const labels = `[...document.querySelectorAll("details label, details legend, details span")].map((e) => e.textContent.trim()).join("\n")`
	shown := "\n" + browsertest.Value[string](t, ctx, labels) + "\n"
	for _, want := range []string{"These nodes", "and every node of these regions", "None chosen: every node."} {
		if !strings.Contains(shown, "\n"+want+"\n") {
			t.Errorf("the form lacks %q: %s", want, shown)
		}
	}
}

// TestEmptyInBrowser looks at the pages of an origin that has nothing to show.
func TestEmptyInBrowser(t *testing.T) {
	ctx := browsertest.Start(t, "the console without records")
	f := newEmptyFixture(t)
	base := f.AdminURL() + "/console/"
	if err := chromedp.Do(ctx, browsertest.Look("light", 1280), chromedp.Navigate(base), chromedp.WaitVisible(`input[name=token]`),
		chromedp.SendKeys(`input[name=token]`, f.Token()+kb.Enter), chromedp.WaitVisible(`.charts`)); err != nil {
		t.Fatal(err)
	}
	drawn4(t, ctx, base, "empty-", []string{"", "nodes", "releases", "accounts", "webhooks", "deliveries", "quarantine", "lockouts", "audit", "tokens", "nowhere"})
}

// clipped is the text of links, badges and ids that their box, or the window, cuts off.
const clipped = `[...document.querySelectorAll("nav a, code, .badge, button")].filter(e => {
	const r = e.getBoundingClientRect();
	return r.width > 0 && (r.right > window.innerWidth + 1 || r.left < -1) && !e.closest(".scroll, details:not([open])");
}).map(e => e.textContent.trim()).join(", ")`

// gapOfLeads is the room between the form above the download of leads and its line.
const gapOfLeads = `(p => p.getBoundingClientRect().top - p.previousElementSibling.getBoundingClientRect().bottom)(document.querySelector('a[href$="leads.csv"]').parentElement)`

// drawn4 draws each page dark and light, on a desktop and on a telephone: none is wider
// than its window, and axe finds nothing in each scheme and at each width.
func drawn4(t *testing.T, ctx context.Context, base, prefix string, pages []string) {
	t.Helper()
	axe := browsertest.ReadAxe(t, "../..")
	for _, page := range pages {
		name, _, one := strings.Cut(page, "/")
		name = cmp.Or(name, "overview")
		if one {
			name += "-one"
		}
		if err := chromedp.Do(ctx, chromedp.Navigate(base+page), chromedp.WaitVisible(`main`)); err != nil {
			t.Fatalf("%s%s: %v", prefix, name, err)
		}
		// No script of the console asks for the window's width or colours.
		for _, scheme := range []string{"dark", "light"} {
			for _, width := range []int64{1280, 390} {
				shown := fmt.Sprintf("%s%s-%s-%d", prefix, name, scheme, width)
				if err := chromedp.Do(ctx, browsertest.Look(scheme, width), chromedp.WaitVisible(`main`)); err != nil {
					t.Fatalf("%s: %v", shown, err)
				}
				browsertest.Shoot(t, ctx, shown)
				if cut := browsertest.Value[string](t, ctx, clipped); cut != "" {
					t.Errorf("%s: clipped: %s", shown, cut)
				}
				if (scheme == "dark") == (width == 390) { // what axe finds is of a scheme or of a width
					axe.Check(t, ctx, shown)
				}
			}
		}
	}
	axe.Tell(t, "the console")
}

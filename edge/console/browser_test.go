package console_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"partneredge/edge/browsertest"
)

// logIn logs the browser in at the console below base, and shows one of its pages.
func (f *fixture) logIn(ctx context.Context, base, page string) {
	f.Helper()
	if err := chromedp.Do(ctx, chromedp.Navigate(base), chromedp.WaitVisible(`input[name=token]`),
		chromedp.SendKeys(`input[name=token]`, f.Token()+kb.Enter), chromedp.WaitVisible(`.charts`), chromedp.Navigate(base+page)); err != nil {
		f.Fatal(err)
	}
}

// TestFormsAreSentOnceInBrowser: a second form is not sent before a page is shown again, but
// for one after a form whose answer is a file.
func TestFormsAreSentOnceInBrowser(t *testing.T) {
	ctx := browsertest.Start(t, "forms that are sent twice")
	f := newFixture(t)
	f.logIn(ctx, f.AdminURL()+"/console/", "accounts/"+f.account.ID)
	// An event made by a script asks the console's own, and sends nothing.
	const send = `(() => {
		const sends = (what) => document.querySelector('form[action$="' + what + '"]').dispatchEvent(new Event("submit", {bubbles: true, cancelable: true}));
		const first = [sends("/export"), sends("/export"), sends("/keys")], second = [sends("/keys"), sends("/export")];
		window.dispatchEvent(new Event("pageshow"));
		return [first, second, sends("/keys")].join(" ");
	})()`
	got := browsertest.Value[string](t, ctx, send)
	if want := "true,true,true false,false true"; got != want {
		t.Errorf("the script lets forms be sent: %s; want %s", got, want)
	}
}

// TestLoginByPlainHTTPInBrowser: a browser is less open to an address by plain HTTP than to one
// of loopback, and sends its forms with other headers.
func TestLoginByPlainHTTPInBrowser(t *testing.T) {
	ctx := browsertest.Start(t, "a login by plain HTTP", chromedp.Flag("host-resolver-rules", "MAP console.test 127.0.0.1"))
	f := newFixture(t)
	base := strings.Replace(f.AdminURL(), "127.0.0.1", "console.test", 1) + "/console/"
	if err := chromedp.Do(ctx, chromedp.Navigate(base), chromedp.WaitVisible(`input[name=token]`),
		chromedp.SendKeys(`input[name=token]`, f.Token()+kb.Enter), chromedp.WaitNotPresent(`input[name=token]`)); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](`document.readyState === "complete"`, chromedp.WithPollingTimeout(time.Minute))); err != nil {
		t.Fatal(err)
	}
	if shown := browsertest.Value[string](t, ctx, `isSecureContext + " " + (document.querySelector("h1") ?? document.body).textContent`); shown != "false Overview" {
		t.Fatalf("after the login the browser shows %q", shown)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(base+"accounts/"+f.account.ID), chromedp.Click(`details > summary`),
		chromedp.Click(`details form button.primary`), chromedp.WaitVisible(`#secret`)); err != nil {
		t.Errorf("making a key: %v", err)
	}
}

// TestSilentStreamInBrowser: a live page whose connection brings nothing more says so, and
// opens another.
func TestSilentStreamInBrowser(t *testing.T) {
	ctx := browsertest.Start(t, "a stream that falls silent")
	f := newEmptyFixture(t)
	again := make(chan struct{})
	resume := sync.OnceFunc(func() { close(again) })
	defer resume()
	hold := func(r *http.Request) {
		if r.URL.Path != "/admin/v1/traffic" {
			return
		}
		select {
		case <-again:
		case <-r.Context().Done(): // the browser has closed the stream
		}
	}
	wait := func(shown string) {
		t.Helper()
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](`document.getElementById("pulse").textContent === "`+shown+`"`, chromedp.WithPollingTimeout(time.Minute))); err != nil {
			t.Fatalf("the page does not say %q: %v", shown, err)
		}
	}
	f.logIn(ctx, f.AdminURL()+"/console/", "")
	wait("live")
	f.hold.Store(&hold)
	wait("reconnecting")
	resume()
	wait("live")
}

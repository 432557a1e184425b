package console_test

import (
	"context"
	"testing"

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

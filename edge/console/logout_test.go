package console_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestLogoutEndsTheSession replays the cookie that the browser had before it logged
// out, as one would who had copied it. The session must be gone at the origin, and
// not only from the browser.
func TestLogoutEndsTheSession(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	page, err := http.NewRequestWithContext(t.Context(), "GET", f.AdminURL()+"/console/accounts", nil)
	if err != nil {
		t.Fatal(err)
	}
	old := b.client.Jar.Cookies(page.URL)
	if len(old) != 1 {
		t.Fatalf("cookies %v", old)
	}
	page.AddCookie(old[0])
	noJar := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	status := func() int {
		resp, err := noJar.Do(page)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := status(); got != 200 {
		t.Fatalf("before logout the cookie gets %d", got)
	}
	other := f.login(f.Token())
	b.get("")
	b.post("logout", nil)
	if got := status(); got != 303 {
		t.Errorf("after logout the cookie gets %d, want a redirect to the login", got)
	}
	if resp, _ := other.get("accounts"); resp.Request.URL.Path != "/console/accounts" {
		t.Errorf("logout ended another session: %s", resp.Request.URL)
	}
}

// TestUnknownRecords asks for the pages of records that are not there.
func TestUnknownRecords(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	for _, path := range []string{"accounts/acc_none", "webhooks/whs_none", "events/evt_none"} {
		if resp, text := b.get(path); resp.StatusCode != 404 || !strings.Contains(text, "no such record") {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

// TestRevokedTokenEndsTheSession revokes the token of a browser that is logged in:
// its next page is the login, and the browser forgets its cookie.
func TestRevokedTokenEndsTheSession(t *testing.T) {
	f := newFixture(t)
	id, plain := f.token("viewer")
	b := f.login(plain)
	f.call("POST", "/tokens/"+id+"/revoke", nil, nil)
	page, err := http.NewRequestWithContext(t.Context(), "GET", f.AdminURL()+"/console/accounts", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, _ := b.get("accounts"); resp.Request.URL.Path != "/console/login" {
		t.Errorf("with a revoked token: %s", resp.Request.URL)
	}
	for _, cookie := range b.client.Jar.Cookies(page.URL) {
		if cookie.Name == "console" {
			t.Errorf("the browser keeps %v", cookie)
		}
	}
}

package console

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"partneredge/edge/adminapi"
)

// TestFailuresAreShown has the admin API fail in each way. What is no refusal is
// logged and not shown, and a token that was revoked ends its session.
func TestFailuresAreShown(t *testing.T) {
	refusedWith := func(status int, p adminapi.Problem) error {
		return fmt.Errorf("read: %w", &adminapi.Error{Status: status, Problem: p})
	}
	for name, test := range map[string]struct {
		err    error
		status int
		shown  string
		logged bool
		ends   bool
	}{
		"a failure":   {errors.New("disk is broken"), 500, "Something went wrong. It has been logged.", true, false},
		"no token":    {refusedWith(401, adminapi.Problem{Kind: "unauthorized"}), 303, "login", false, true},
		"a role":      {refusedWith(403, adminapi.Problem{Kind: "forbidden", Reason: "role"}), 403, "Your role does not reach: forbidden role.", false, false},
		"no record":   {refusedWith(404, adminapi.Problem{Kind: "not_found"}), 404, "There is no such record.", false, false},
		"a refusal":   {refusedWith(409, adminapi.Problem{Kind: "conflict", Reason: "revoked"}), 409, "The origin refused: conflict revoked", false, false},
		"with detail": {refusedWith(422, adminapi.Problem{Kind: "conflict", Detail: "the key is gone"}), 422, "The origin refused: the key is gone", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			c, err := New(Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			v := visitOf("/console/accounts", nil)
			v.session = c.sessions.open("token", adminapi.Whoami{})
			w := httptest.NewRecorder()
			c.fail(w, v, test.err)
			if text := w.Body.String() + w.Header().Get("Location"); w.Code != test.status || !strings.Contains(text, test.shown) || strings.Contains(text, "broken") {
				t.Errorf("status %d: %s", w.Code, text)
			}
			if got := strings.Contains(log.String(), "disk is broken"); got != test.logged {
				t.Errorf("logged %t: %s", got, &log)
			}
			if ended := len(c.sessions.byID) == 0; ended != test.ends || (len(w.Result().Cookies()) == 1) != test.ends {
				t.Errorf("the session ended: %t, cookies %v", ended, w.Result().Cookies())
			}
		})
	}
}

// TestLoginsDoNotFillTheLog: however many tokens cannot be checked, one line a minute says so.
func TestLoginsDoNotFillTheLog(t *testing.T) {
	var log bytes.Buffer
	c, err := New(Config{Log: slog.New(slog.NewTextHandler(&log, nil)), API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		form := url.Values{"csrf": {c.sessions.sign("cookie")}, "token": {"any"}}
		r := httptest.NewRequest("POST", "/console/login", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(&http.Cookie{Name: loginCookie, Value: "cookie"})
		w := httptest.NewRecorder()
		if c.ServeHTTP(w, r); w.Code != http.StatusInternalServerError {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 {
		t.Errorf("100 logins bring about %d lines in the log, want 1", lines)
	}
}

// TestNoticeIsShownOnce keeps a secret for one page alone.
func TestNoticeIsShownOnce(t *testing.T) {
	s := newSessions(time.Now)
	one := s.open("token", adminapi.Whoami{})
	s.addNotice(one, notice{Secret: "shown once"})
	if n := s.takeNotices(one); len(n) != 1 || n[0].Secret != "shown once" {
		t.Errorf("the next page shows %+v", n)
	}
	if n := s.takeNotices(one); n != nil {
		t.Errorf("the page after it shows %+v", n)
	}
	s.addNotice(one, notice{Secret: "shown once"})
	for range 2 * maxNotices {
		s.addNotice(one, notice{Text: "refused", Form: url.Values{"large": {"text"}}})
	}
	n := s.takeNotices(one)
	if len(n) != maxNotices || n[0].Secret != "shown once" {
		t.Fatalf("of many notices %d are kept, the first is %+v", len(n), n[0])
	}
	if n[len(n)-1].Form == nil || n[len(n)-2].Form != nil {
		t.Error("the values of another form than the last are kept")
	}
}

// TestNumbersAreDecimal reads numbers of a form up to the largest.
func TestNumbersAreDecimal(t *testing.T) {
	v := visitOf("/console/", url.Values{"n": {"109"}, "most": {"9223372036854775807"}, "more": {"9223372036854775808"}})
	if n, err := v.number("n"); err != nil || *n != 109 {
		t.Errorf("109 is read as %v, %v", n, err)
	}
	if n, err := v.number("most"); err != nil || *n != math.MaxInt64 {
		t.Errorf("the largest is read as %v, %v", n, err)
	}
	if n, err := v.number("more"); err == nil {
		t.Errorf("a larger one is read as %d", *n)
	}
}

// TestRefusedAs tells the refusals that a form knows how to answer from others.
func TestRefusedAs(t *testing.T) {
	err := fmt.Errorf("save: %w", &adminapi.Error{Status: 409, Problem: adminapi.Problem{Kind: "conflict"}})
	if refused, ok := refusedAs(err, "invalid", "conflict"); !ok || refused.Status != 409 {
		t.Errorf("%v, %t", refused, ok)
	}
	if _, ok := refusedAs(err, "invalid"); ok {
		t.Error("another kind counts")
	}
	if _, ok := refusedAs(errors.New("conflict"), "conflict", ""); ok {
		t.Error("what is no refusal counts")
	}
}

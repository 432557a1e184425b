package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// form does what a form asks for. It returns what to say of it, and where to go
// on.
type form func(r *http.Request, s *session) (notice, string, error)

// submitted checks that a form came from one of the session's own pages, does
// it, and goes on to a page that can be loaded again.
func (c *Console) submitted(act form) page {
	return func(w http.ResponseWriter, r *http.Request, s *session) {
		if err := r.ParseForm(); err != nil || !same(r.PostForm.Get("csrf"), s.csrf) {
			c.problem(w, r, s, http.StatusForbidden, "This form is not from a page of your session. Go back, load the page again and retry.")
			return
		}
		told, to, err := act(r, s)
		var refused *refusal
		switch {
		case errors.As(err, &refused) && refused.status/100 == 4 && refused.status != http.StatusUnauthorized:
			told = notice{Text: "Not done: " + refused.Error(), Failed: true}
		case err != nil:
			c.failed(w, r, s, err)
			return
		}
		if told.Text != "" {
			c.sessions.tell(s, told)
		}
		if to == Path+"login" { // logged out
			c.setCookie(w, r, sessionCookie, "")
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

func (c *Console) showLogin(w http.ResponseWriter, r *http.Request) {
	c.loginPage(w, r, http.StatusOK, "")
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request, status int, failed string) {
	cookie := randomText()
	c.setCookie(w, r, loginCookie, cookie)
	c.show(w, nil, status, "login", view{Title: "Log in", CSRF: c.sessions.sign(cookie), Data: failed})
}

// login opens a session for who has a token.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	cookie, err := r.Cookie(loginCookie)
	if err != nil || r.ParseForm() != nil || !same(r.PostForm.Get("csrf"), c.sessions.sign(cookie.Value)) {
		c.loginPage(w, r, http.StatusForbidden, "This form was too old. Please try again.")
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	var me who
	if err := c.api.call(r, token, http.MethodGet, "/whoami", nil, &me); err != nil {
		var refused *refusal
		if errors.As(err, &refused) && refused.status == http.StatusUnauthorized {
			c.loginPage(w, r, http.StatusUnauthorized, "That is not a token, or it has been revoked.")
			return
		}
		c.log.Error("console login", "err", err)
		c.loginPage(w, r, http.StatusInternalServerError, "The origin could not check the token. Please try again.")
		return
	}
	s := c.sessions.open(token, me)
	c.setCookie(w, r, sessionCookie, s.id)
	c.setCookie(w, r, loginCookie, "")
	http.Redirect(w, r, Path, http.StatusSeeOther)
}

func (c *Console) logout(_ *http.Request, s *session) (notice, string, error) {
	c.sessions.close(s)
	return notice{}, Path + "login", nil
}

func (c *Console) post(r *http.Request, s *session, path string, in, out any) error {
	return c.api.call(r, s.token, http.MethodPost, path, in, out)
}

// words of a field, by white space or comma.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
}

// back is the page that the form stood on: that of the account it names.
func back(r *http.Request) string {
	return Path + "accounts/" + url.PathEscape(r.PostForm.Get("account"))
}

func id(r *http.Request) string { return url.PathEscape(r.PathValue("id")) }

func (c *Console) createAccount(r *http.Request, s *session) (notice, string, error) {
	var made account
	err := c.post(r, s, "/accounts", map[string]any{
		"name":  r.PostForm.Get("name"),
		"agent": map[string]string{"email": r.PostForm.Get("email"), "full_name": r.PostForm.Get("full_name")},
	}, &made)
	if err != nil {
		return notice{}, Path + "accounts", err
	}
	return notice{Text: "Account made. It is in setup: its events are silenced until it is live."}, Path + "accounts/" + made.ID, nil
}

func (c *Console) setMode(r *http.Request, s *session) (notice, string, error) {
	to := Path + "accounts/" + id(r)
	mode := r.PostForm.Get("mode")
	err := c.api.call(r, s.token, http.MethodPatch, "/accounts/"+id(r), map[string]string{"activation_mode": mode}, nil)
	if mode == "live" {
		return notice{Text: "The account is live: events are delivered from now on."}, to, err
	}
	return notice{Text: "The account is in setup: events are silenced, waiting deliveries are cancelled."}, to, err
}

func (c *Console) createKey(r *http.Request, s *session) (notice, string, error) {
	to := Path + "accounts/" + id(r)
	in := map[string]any{
		"environment": r.PostForm.Get("environment"), "scopes": r.PostForm["scope"],
		"label": r.PostForm.Get("label"), "ip_allowlist": words(r.PostForm.Get("allowlist")),
	}
	if text := r.PostForm.Get("rate"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return notice{Text: "Not done: the rate is a number of requests a minute.", Failed: true}, to, nil
		}
		in["rate_limit"] = n
	}
	var made minted
	err := c.post(r, s, "/accounts/"+id(r)+"/keys", in, &made)
	return notice{Text: "Key made. Copy it now: it is not shown again.", Secret: made.Plaintext, SecretName: "API key"}, to, err
}

func (c *Console) rotateKey(r *http.Request, s *session) (notice, string, error) {
	in := map[string]any{}
	if days, err := strconv.Atoi(r.PostForm.Get("grace_days")); err == nil {
		in["grace_seconds"] = days * int(24*time.Hour/time.Second)
	}
	var made minted
	err := c.post(r, s, "/keys/"+id(r)+"/rotate", in, &made)
	return notice{Text: "Successor made. Copy it now: it is not shown again. The old key goes on until its grace ends.",
		Secret: made.Plaintext, SecretName: "API key"}, back(r), err
}

func (c *Console) revokeKey(r *http.Request, s *session) (notice, string, error) {
	return notice{Text: "Key revoked, at every node within moments."}, back(r), c.post(r, s, "/keys/"+id(r)+"/revoke", nil, nil)
}

func (c *Console) retryDelivery(r *http.Request, s *session) (notice, string, error) {
	to := Path + "webhooks/" + url.PathEscape(r.PostForm.Get("webhook"))
	return notice{Text: "Queued again."}, to, c.post(r, s, "/deliveries/"+id(r)+"/retry", nil, nil)
}

func (c *Console) recoverDeliveries(r *http.Request, s *session) (notice, string, error) {
	to := Path + "webhooks/" + id(r)
	hours, err := strconv.Atoi(r.PostForm.Get("hours"))
	if err != nil || hours < 1 || hours > 24*365 {
		return notice{Text: "Not done: hours are a number from 1 on.", Failed: true}, to, nil
	}
	since := c.now().Add(-time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
	var out struct{ Queued int }
	err = c.post(r, s, "/webhooks/"+id(r)+"/recover", map[string]string{"since": since}, &out)
	return notice{Text: "Dead deliveries queued again: " + strconv.Itoa(out.Queued) + "."}, to, err
}

func (c *Console) rotateSecret(r *http.Request, s *session) (notice, string, error) {
	in := map[string]any{}
	if hours, err := strconv.Atoi(r.PostForm.Get("overlap_hours")); err == nil {
		in["overlap_seconds"] = hours * int(time.Hour/time.Second)
	}
	var made struct{ Secret string }
	err := c.post(r, s, "/webhooks/"+id(r)+"/rotate-secret", in, &made)
	return notice{Text: "New signing secret. Copy it now: it is not shown again. The one before signs as well until the overlap ends.",
		Secret: made.Secret, SecretName: "signing secret"}, Path + "webhooks/" + id(r), err
}

func (c *Console) enrolNode(r *http.Request, s *session) (notice, string, error) {
	var made struct{ Credentials string }
	err := c.post(r, s, "/nodes", map[string]string{"name": r.PostForm.Get("name"), "region": r.PostForm.Get("region")}, &made)
	return notice{Text: "Node enrolled. Copy its credentials into a file now: they are not shown again.",
		Secret: made.Credentials, SecretName: "credentials"}, Path + "nodes", err
}

func (c *Console) revokeNode(r *http.Request, s *session) (notice, string, error) {
	return notice{Text: "Node revoked: its connection is ended."}, Path + "nodes", c.post(r, s, "/nodes/"+id(r)+"/revoke", nil, nil)
}

func (c *Console) createToken(r *http.Request, s *session) (notice, string, error) {
	var made struct{ Plaintext string }
	err := c.post(r, s, "/tokens", map[string]string{"name": r.PostForm.Get("name"), "role": r.PostForm.Get("role")}, &made)
	return notice{Text: "Token made. Copy it now: it is not shown again.", Secret: made.Plaintext, SecretName: "token"}, Path + "tokens", err
}

func (c *Console) revokeToken(r *http.Request, s *session) (notice, string, error) {
	return notice{Text: "Token revoked, with its sessions."}, Path + "tokens", c.post(r, s, "/tokens/"+id(r)+"/revoke", nil, nil)
}

package console

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"partneredge/edge/adminapi"
)

// form does what a form asks for. It returns the notice for the next page, and
// the address of that page.
type form func(*visit) (done notice, to string, err error)

// formError says what is wrong with a form that the admin API was not asked about.
type formError string

func (e formError) Error() string { return string(e) }

// submit checks that a form came from one of the session's own pages, runs it,
// and redirects to a page that can be loaded again.
func (c *Console) submit(run form) func(http.ResponseWriter, *visit) {
	return func(w http.ResponseWriter, v *visit) {
		if !c.ownForm(w, v) {
			return
		}
		done, to, err := run(v)
		if text, ok := refusedFor(err); ok {
			err = formError(text)
		}
		if wrong, ok := errors.AsType[formError](err); ok {
			done = notice{Text: "Not done: " + wrong.Error(), Failed: true, Form: v.PostForm}
		} else if err != nil {
			c.fail(w, v, err)
			return
		}
		if done.Text != "" {
			c.sessions.addNotice(v.session, done)
		}
		if to == Path+"login" { // logged out
			c.setCookie(w, v.Request, sessionCookie, "")
		}
		http.Redirect(w, v.Request, to, http.StatusSeeOther)
	}
}

// refusedFor returns why the admin API refused what was asked, and whether that is what err is.
func refusedFor(err error) (string, bool) {
	refused, ok := errors.AsType[*adminapi.Error](err)
	if !ok || refused.Status/100 != 4 || refused.Status == http.StatusUnauthorized {
		return "", false
	}
	return refusal(refused), true
}

// ownForm reads the form of a visit. If it did not come from one of the session's own
// pages, ownForm answers, and returns false.
func (c *Console) ownForm(w http.ResponseWriter, v *visit) bool {
	if err := v.ParseForm(); err == nil && equal(v.PostForm.Get("csrf"), v.session.csrf) {
		return true
	}
	c.problem(w, v.session, http.StatusForbidden, "This form is not from a page of your session. Go back, load the page again and retry.")
	return false
}

// exportAccount sends what is kept of an account as a file that the browser saves. It is
// passed on from the admin API as it is made, so it may be of any size.
func (c *Console) exportAccount(w http.ResponseWriter, v *visit) {
	if !c.ownForm(w, v) {
		return
	}
	if err := v.get("/accounts/"+v.id(), nil); err != nil {
		c.fail(w, v, err)
		return
	}
	if !(view{Who: &v.session.who}).May("admin") {
		c.problem(w, v.session, http.StatusForbidden, "An export needs the role admin.")
		return
	}
	req, err := http.NewRequestWithContext(v.Context(), http.MethodGet, "http://origin/admin/v1/accounts/"+v.id()+"/export", http.NoBody)
	if err != nil {
		c.fail(w, v, err)
		return
	}
	req.RemoteAddr = c.remoteAddr(v.Request)
	req.Header.Set("Authorization", "Bearer "+v.session.token)
	w.Header().Set("Content-Disposition", `attachment; filename="`+v.id()+`.jsonl"`)
	c.cfg.API.ServeHTTP(w, req)
}

// act returns a form that posts nothing but its path to the admin API; {id} there is
// the id in the page's own path. to returns the address of the next page.
func act(path, done string, to func(*visit) string) form {
	return func(v *visit) (notice, string, error) {
		return notice{Text: done}, to(v), v.post(strings.Replace(path, "{id}", v.id(), 1), nil, nil)
	}
}

// section returns the address of a section, whatever the visit.
func section(name string) func(*visit) string {
	return func(*visit) string { return Path + name }
}

func (c *Console) showLogin(w http.ResponseWriter, r *http.Request) {
	c.loginPage(w, r, http.StatusOK, "")
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request, status int, failed string) {
	cookie := rand.Text()
	c.setCookie(w, r, loginCookie, cookie)
	c.write(w, nil, status, view{page: "login", Title: "Log in", CSRF: c.sessions.sign(cookie), Data: failed})
}

// login opens a session for whoever has a token.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	cookie, err := r.Cookie(loginCookie)
	if err != nil || r.ParseForm() != nil || !equal(r.PostForm.Get("csrf"), c.sessions.sign(cookie.Value)) {
		c.loginPage(w, r, http.StatusForbidden, "This form was too old. Please try again.")
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	var who adminapi.Whoami
	if err := c.client(r, token).Call(r.Context(), http.MethodGet, "/whoami", nil, &who); err != nil {
		if refused, ok := errors.AsType[*adminapi.Error](err); ok && refused.Status == http.StatusUnauthorized {
			c.loginPage(w, r, http.StatusUnauthorized, "That is not a token, or it has been revoked.")
			return
		}
		if refused, ok := errors.AsType[*adminapi.Error](err); ok && refused.Status == http.StatusTooManyRequests {
			c.loginPage(w, r, http.StatusTooManyRequests, "Too many wrong tokens came from your address. Please wait for a minute.")
			return
		}
		c.limited.Error("login", "cannot check a token at login", "err", err)
		c.loginPage(w, r, http.StatusInternalServerError, "The origin could not check the token. Please try again.")
		return
	}
	s := c.sessions.open(token, who)
	c.setCookie(w, r, sessionCookie, s.id)
	c.setCookie(w, r, loginCookie, "")
	http.Redirect(w, r, Path, http.StatusSeeOther)
}

func (c *Console) logout(v *visit) (notice, string, error) {
	c.sessions.close(v.session)
	return notice{}, Path + "login", nil
}

func createAccount(v *visit) (notice, string, error) {
	var made adminapi.Account
	err := v.post("/accounts", adminapi.NewAccount{
		Name: v.field("name"), Agent: &adminapi.NewAgent{Email: v.field("email"), FullName: v.field("full_name")},
	}, &made)
	if err != nil {
		return notice{}, Path + "accounts", err
	}
	return notice{Text: "Account made. It is in setup: its events are silenced until it is live."}, Path + "accounts/" + made.ID, nil
}

func setMode(v *visit) (notice, string, error) {
	to, mode := Path+"accounts/"+v.id(), v.field("mode")
	err := v.call(http.MethodPatch, "/accounts/"+v.id(), adminapi.AccountPatch{ActivationMode: mode}, nil)
	if *mode == "live" {
		return notice{Text: "The account is live: events are delivered from now on."}, to, err
	}
	return notice{Text: "The account is in setup: its events are silenced, and deliveries that fall due meanwhile are cancelled."}, to, err
}

func createKey(v *visit) (notice, string, error) {
	to := Path + "accounts/" + v.id()
	rate, err := v.number("rate")
	if err != nil {
		return notice{}, to, formError("the rate is a number of requests a minute.")
	}
	var made adminapi.MintedKey
	err = v.post("/accounts/"+v.id()+"/keys", adminapi.NewKey{
		Environment: v.field("environment"), Scopes: append(v.PostForm["scope"], v.words("own_scopes")...), Label: v.field("label"), IPAllowlist: v.words("allowlist"), RateLimit: rate,
	}, &made)
	return notice{Text: "Key made. Copy it now: it is not shown again.", Secret: made.Plaintext, SecretName: "API key"}, to, err
}

// accountOf returns the address of the account that a form of a key names.
func accountOf(v *visit) string {
	return Path + "accounts/" + url.PathEscape(v.PostForm.Get("account"))
}

// webhookOf returns the address of the subscription that a form names.
func webhookOf(v *visit) string {
	return Path + "webhooks/" + url.PathEscape(v.PostForm.Get("webhook"))
}

func rotateKey(v *visit) (notice, string, error) {
	grace, err := v.seconds("grace_days", 24*time.Hour)
	if err != nil {
		return notice{}, accountOf(v), err
	}
	var made adminapi.RotatedKey
	err = v.post("/keys/"+v.id()+"/rotate", adminapi.Rotation{GraceSeconds: grace}, &made)
	return notice{Text: "Successor made. Copy it now: it is not shown again. The old key goes on until its grace ends.",
		Secret: made.Plaintext, SecretName: "API key"}, accountOf(v), err
}

func revokeKey(v *visit) (notice, string, error) {
	var revoked adminapi.Key
	err := v.post("/keys/"+v.id()+"/revoke", nil, &revoked)
	text := "Key revoked, at every node within moments."
	if len(revoked.Webhooks) > 0 {
		var ids []string
		for _, s := range revoked.Webhooks {
			ids = append(ids, s.ID)
		}
		text += " Subscriptions that were made with it go on: " + strings.Join(ids, ", ") + "."
	}
	return notice{Text: text}, accountOf(v), err
}

// recoverRequests bounds the requests of some ten seconds that one page makes: the listener
// gives it a minute.
const recoverRequests = 4

func (c *Console) recoverDeliveries(v *visit) (notice, string, error) {
	to := Path + "webhooks/" + v.id()
	hours, err := strconv.Atoi(v.PostForm.Get("hours"))
	if err != nil || hours < 1 || hours > 24*365 {
		return notice{}, to, formError("hours are a number from 1 on.")
	}
	since := c.cfg.Now().Add(-time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
	in, queued := adminapi.Recovery{Since: &since}, 0
	for range recoverRequests {
		var out adminapi.Recovered
		err := v.post("/webhooks/"+v.id()+"/recover", in, &out)
		if why, refused := refusedFor(err); refused && queued > 0 {
			return notice{Text: "Dead deliveries queued again: " + strconv.Itoa(queued) + ". Then no more: " + why, Failed: true}, to, nil
		} else if err != nil {
			return notice{}, to, err
		}
		if queued += out.Queued; out.NextCursor == "" {
			return notice{Text: "Dead deliveries queued again: " + strconv.Itoa(queued) + "."}, to, nil
		}
		in.Cursor = new(string(out.NextCursor))
	}
	return notice{Text: "Dead deliveries queued again: " + strconv.Itoa(queued) + ". There are more: queue again."}, to, nil
}

func rotateSecret(v *visit) (notice, string, error) {
	overlap, err := v.seconds("overlap_hours", time.Hour)
	if err != nil {
		return notice{}, Path + "webhooks/" + v.id(), err
	}
	var made adminapi.RotatedSecret
	err = v.post("/webhooks/"+v.id()+"/rotate-secret", adminapi.SecretRotation{OverlapSeconds: overlap}, &made)
	return notice{Text: "New signing secret. Copy it now: it is not shown again. The one before signs as well until the overlap ends.",
		Secret: made.Secret, SecretName: "signing secret"}, Path + "webhooks/" + v.id(), err
}

func enrolNode(v *visit) (notice, string, error) {
	var made adminapi.EnrolledNode
	err := v.post("/nodes", adminapi.NewNode{Name: v.field("name"), Region: v.field("region")}, &made)
	return notice{Text: "Node enrolled. Copy its credentials into a file now: they are not shown again.",
		Secret: made.Credentials, SecretName: "credentials"}, Path + "nodes", err
}

func (c *Console) createToken(v *visit) (notice, string, error) {
	in := adminapi.NewToken{Name: v.field("name"), Role: v.field("role")}
	seconds, err := v.seconds("days", 24*time.Hour)
	if err != nil {
		return notice{}, Path + "tokens", err
	}
	if seconds != nil {
		in.ExpiresAt = new(c.cfg.Now().Add(time.Duration(*seconds) * time.Second).UTC().Format(time.RFC3339))
	}
	var made adminapi.MintedToken
	err = v.post("/tokens", in, &made)
	return notice{Text: "Token made. Copy it now: it is not shown again.", Secret: made.Plaintext, SecretName: "token"}, Path + "tokens", err
}

// promote begins a rollout.
func promote(v *visit) (notice, string, error) {
	const to = Path + "releases"
	in := adminapi.NewRollout{Nodes: v.words("nodes"), Regions: v.PostForm["region"]}
	for name, n := range map[string]**int64{"pause": &in.PauseSeconds, "canary": &in.CanaryPercent, "percent": &in.Percent} {
		var err error
		if *n, err = v.number(name); err != nil {
			return notice{}, to, formError(name + " is a number.")
		}
	}
	for _, word := range v.words("stages") {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return notice{}, to, formError("stages are percentages that rise to 100, such as 1 10 50 100.")
		}
		in.Stages = append(in.Stages, n)
	}
	var begun adminapi.Rollout
	err := v.post("/releases/"+url.PathEscape(v.PostForm.Get("release"))+"/promote", in, &begun)
	return notice{Text: "Rollout of " + begun.Version + " begun."}, to, err
}

package console

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"partneredge/edge/adminapi"
)

// visit is a request of somebody who has logged in.
type visit struct {
	*http.Request
	session *session
	api     *adminapi.Client
}

// client returns a client of the admin API in this process. The API takes its
// requests to come from the client of r.
func (c *Console) client(r *http.Request, token string) *adminapi.Client {
	return &adminapi.Client{
		URL: "http://origin", Token: token,
		HTTP: &http.Client{Transport: adminapi.Handler{Handler: c.cfg.API, RemoteAddr: c.remoteAddr(r)}},
	}
}

// remoteAddr returns the address of r's client, as that of a connection without a port.
func (c *Console) remoteAddr(r *http.Request) string {
	return netip.AddrPortFrom(c.cfg.Proxies.Client(r), 0).String()
}

// inSession serves the visits of a session, and sends other requests to the login.
func (c *Console) inSession(serve func(http.ResponseWriter, *visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := c.sessions.find(r, !strings.HasSuffix(r.URL.Path, "/live"))
		if s == nil {
			http.Redirect(w, r, Path+"login", http.StatusSeeOther)
			return
		}
		serve(w, &visit{r, s, c.client(r, s.token)})
	}
}

// call calls the admin API for a change, which goes on when the browser goes away.
func (v *visit) call(method, path string, in, out any) error {
	return v.api.Call(context.WithoutCancel(v.Context()), method, path, in, out)
}

// get reads from the admin API, until the browser goes away.
func (v *visit) get(path string, out any) error {
	return v.api.Call(v.Context(), http.MethodGet, path, nil, out)
}

func (v *visit) post(path string, in, out any) error {
	return v.call(http.MethodPost, path, in, out)
}

// id returns the id in the path of the page, escaped.
func (v *visit) id() string { return url.PathEscape(v.PathValue("id")) }

// query returns the parameter with its value in the page's own query, to be
// appended to a query of the admin API.
func (v *visit) query(name string) string {
	return "&" + name + "=" + url.QueryEscape(v.URL.Query().Get(name))
}

// page returns the query that asks the admin API for the page of a list that the
// visit is about.
func (v *visit) page() string { return "?limit=50" + v.query("cursor") }

// rows returns how many rows a page shows at once, and the most that the admin API gives for
// a download.
func (v *visit) rows(shown string) string {
	if strings.HasSuffix(v.URL.Path, ".csv") {
		return "200"
	}
	return shown
}

// next returns the address of the page that begins at cursor, "" for none.
func (v *visit) next(cursor adminapi.Cursor) string {
	if cursor == "" {
		return ""
	}
	query := v.URL.Query()
	query.Set("cursor", string(cursor))
	return v.URL.Path + "?" + query.Encode()
}

// field returns a field of the form. It is never nil.
func (v *visit) field(name string) *string { return new(v.PostForm.Get(name)) }

// number returns a field of the form that is a whole number, nil when it is empty.
func (v *visit) number(name string) (*int64, error) {
	text := v.PostForm.Get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, err
	}
	return &n, nil
}

// seconds returns a field of the form that counts a unit of time in seconds, nil when it is
// empty.
func (v *visit) seconds(name string, unit time.Duration) (*int64, error) {
	n, err := v.number(name)
	if n == nil && err == nil {
		return nil, nil
	}
	if err != nil || *n < 0 || *n > int64(math.MaxInt64/unit) {
		return nil, formError(strings.ReplaceAll(name, "_", " ") + " is a whole number.")
	}
	return new(*n * int64(unit/time.Second)), nil
}

// words returns the words of a field, by white space or comma.
func (v *visit) words(name string) []string {
	return strings.FieldsFunc(v.PostForm.Get(name), func(r rune) bool { return strings.ContainsRune(", \n\r\t", r) })
}

// problem shows a page with nothing but a text. s is nil without a session.
func (c *Console) problem(w http.ResponseWriter, s *session, status int, text string) {
	c.write(w, s, status, view{page: "problem", Title: http.StatusText(status), Data: text})
}

// fail answers a visit that ended with an error.
func (c *Console) fail(w http.ResponseWriter, v *visit, err error) {
	refused, ok := errors.AsType[*adminapi.Error](err)
	switch {
	case !ok:
		c.cfg.Log.Error("cannot serve a page", "err", err)
		c.problem(w, v.session, http.StatusInternalServerError, "Something went wrong. It has been logged.")
	case refused.Status == http.StatusUnauthorized: // the token was revoked
		c.sessions.close(v.session)
		c.setCookie(w, v.Request, sessionCookie, "")
		http.Redirect(w, v.Request, Path+"login", http.StatusSeeOther)
	case refused.Status == http.StatusForbidden:
		c.problem(w, v.session, refused.Status, "Your role does not reach: "+refusal(refused)+".")
	case refused.Status == http.StatusNotFound:
		c.problem(w, v.session, refused.Status, "There is no such record.")
	default:
		c.problem(w, v.session, refused.Status, "The origin refused: "+refusal(refused))
	}
}

// refusal returns why the admin API refused a call.
func refusal(err *adminapi.Error) string { return cmp.Or(err.Detail, err.Kind+" "+err.Reason) }

// refusedAs returns err as a refusal of the admin API of one of the kinds.
func refusedAs(err error, kinds ...string) (*adminapi.Error, bool) {
	refused, ok := errors.AsType[*adminapi.Error](err)
	return refused, ok && slices.Contains(kinds, refused.Kind)
}

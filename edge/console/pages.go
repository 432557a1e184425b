package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// page answers a request of somebody who has logged in.
type page func(http.ResponseWriter, *http.Request, *session)

// view is what every page is made from.
type view struct {
	Title, Section string
	Who            *who // nil before login
	CSRF           string
	Notice         *notice
	Data           any
	Next           string // address of the next page of a list
}

// May tells whether the role of who is logged in is enough.
func (v view) May(role string) bool {
	rank := map[string]int{"viewer": 1, "operator": 2, "admin": 3}
	return v.Who != nil && rank[v.Who.Role] >= rank[role]
}

// tab is a link to one of the console's sections.
type tab struct {
	To, Name string
	Here     bool
}

func parsePages(now func() time.Time) (map[string]*template.Template, error) {
	shared := template.New("").Funcs(template.FuncMap{
		"stamp": stampText,
		"ago":   func(t *time.Time) string { return agoText(t, now()) },
		"json":  jsonText,
		"join":  func(s []string) string { return strings.Join(s, ", ") },
		"outcomes": func() []string {
			return []string{"", "pending", "delivered", "failed", "refused", "cancelled"}
		},
		"tab": func(v view, section, to, name string) tab { return tab{to, name, v.Section == section} },
	})
	if _, err := shared.ParseFS(pageFiles, "pages/layout.html"); err != nil {
		return nil, err
	}
	names, err := pageFiles.ReadDir("pages")
	if err != nil {
		return nil, err
	}
	pages := make(map[string]*template.Template)
	for _, entry := range names {
		name := strings.TrimSuffix(entry.Name(), ".html")
		if name == "layout" {
			continue
		}
		one, err := shared.Clone()
		if err != nil {
			return nil, err
		}
		if pages[name], err = one.ParseFS(pageFiles, path.Join("pages", entry.Name())); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

// stampText writes a time.Time, or a *time.Time that may be nil.
func stampText(v any) string {
	switch t := v.(type) {
	case time.Time:
		return t.UTC().Format("2006-01-02 15:04:05")
	case *time.Time:
		if t != nil {
			return t.UTC().Format("2006-01-02 15:04:05")
		}
	}
	return "–"
}

func agoText(t *time.Time, now time.Time) string {
	if t == nil {
		return "never"
	}
	d := max(now.Sub(*t), 0)
	switch {
	case d < 5*time.Second:
		return "just now"
	case d < 2*time.Minute:
		return d.Truncate(time.Second).String() + " ago"
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s") + " ago"
	}
	return stampText(t)
}

// jsonText indents a record of the audit log.
func jsonText(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || string(raw) == "null" || json.Indent(&b, raw, "", "  ") != nil {
		return ""
	}
	return b.String()
}

// show writes a page.
func (c *Console) show(w http.ResponseWriter, s *session, status int, name string, v view) {
	if s != nil {
		v.Who, v.CSRF, v.Notice = &s.who, s.csrf, c.sessions.told(s)
	}
	var b bytes.Buffer
	if err := c.pages[name].ExecuteTemplate(&b, "layout", v); err != nil {
		c.log.Error("making a page", "page", name, "err", err)
		http.Error(w, "This page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may be gone
}

func (c *Console) problem(w http.ResponseWriter, r *http.Request, s *session, status int, text string) {
	if s == nil {
		s = c.sessions.of(r, true)
	}
	c.show(w, s, status, "problem", view{Title: http.StatusText(status), Data: text})
}

// failed answers a page that the API refused.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, s *session, err error) {
	var refused *refusal
	switch {
	case !errors.As(err, &refused):
		c.log.Error("console", "err", err)
		c.problem(w, r, s, http.StatusInternalServerError, "Something went wrong. It has been logged.")
	case refused.status == http.StatusUnauthorized: // the token was revoked
		c.sessions.close(s)
		c.setCookie(w, r, sessionCookie, "")
		http.Redirect(w, r, Path+"login", http.StatusSeeOther)
	case refused.status == http.StatusForbidden:
		c.problem(w, r, s, refused.status, "Your role does not reach: "+refused.Error()+".")
	case refused.status == http.StatusNotFound:
		c.problem(w, r, s, refused.status, "There is no such record.")
	default:
		c.problem(w, r, s, refused.status, "The origin refused: "+refused.Error())
	}
}

// inSession serves a page to who has logged in, and sends others to the login.
func (c *Console) inSession(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := c.sessions.of(r, !strings.HasSuffix(r.URL.Path, "/live"))
		if s == nil {
			http.Redirect(w, r, Path+"login", http.StatusSeeOther)
			return
		}
		p(w, r, s)
	}
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request, s *session) {
	data, err := c.readOverview(r, s)
	if err != nil {
		c.failed(w, r, s, err)
		return
	}
	c.show(w, s, http.StatusOK, "overview", view{Title: "Overview", Section: "overview", Data: data})
}

// cursor is the query that asks the API for the page that the request is about.
func cursor(r *http.Request) string {
	return "?limit=50&cursor=" + url.QueryEscape(r.URL.Query().Get("cursor"))
}

// next is the address of the page after this one, "" at the end.
func next(r *http.Request, cursor string) string {
	if cursor == "" {
		return ""
	}
	query := r.URL.Query()
	query.Set("cursor", cursor)
	return r.URL.Path + "?" + query.Encode()
}

// listed shows one of the API's lists.
func listed[T any](c *Console, w http.ResponseWriter, r *http.Request, s *session, from, name, title string) {
	var items list[T]
	if err := c.api.call(r, s.token, http.MethodGet, from, nil, &items); err != nil {
		c.failed(w, r, s, err)
		return
	}
	c.show(w, s, http.StatusOK, name, view{Title: title, Section: name, Data: items.Items, Next: next(r, items.Next)})
}

func (c *Console) nodes(w http.ResponseWriter, r *http.Request, s *session) {
	listed[node](c, w, r, s, "/nodes"+cursor(r), "nodes", "Nodes")
}

func (c *Console) accounts(w http.ResponseWriter, r *http.Request, s *session) {
	listed[account](c, w, r, s, "/accounts"+cursor(r), "accounts", "Accounts")
}

func (c *Console) tokens(w http.ResponseWriter, r *http.Request, s *session) {
	listed[token](c, w, r, s, "/tokens"+cursor(r), "tokens", "Tokens")
}

func (c *Console) audit(w http.ResponseWriter, r *http.Request, s *session) {
	listed[audit](c, w, r, s, "/audit"+cursor(r)+"&target="+url.QueryEscape(r.URL.Query().Get("target")), "audit", "Audit log")
}

// account shows one account with its keys and subscriptions.
func (c *Console) account(w http.ResponseWriter, r *http.Request, s *session) {
	var data struct {
		Account  account
		Keys     list[key]
		Webhooks list[webhook]
		Scopes   []string
	}
	data.Scopes = []string{"read:agent", "read:coaching", "read:sentinels", "write:webhooks", "write:leads"}
	at := "/accounts/" + url.PathEscape(r.PathValue("id"))
	for from, into := range map[string]any{at: &data.Account, at + "/keys" + cursor(r): &data.Keys, at + "/webhooks?limit=100": &data.Webhooks} {
		if err := c.api.call(r, s.token, http.MethodGet, from, nil, into); err != nil {
			c.failed(w, r, s, err)
			return
		}
	}
	c.show(w, s, http.StatusOK, "account", view{Title: data.Account.Name, Section: "accounts", Data: data, Next: next(r, data.Keys.Next)})
}

// webhooks shows the subscriptions of one page of accounts.
func (c *Console) webhooks(w http.ResponseWriter, r *http.Request, s *session) {
	var accounts list[account]
	if err := c.api.call(r, s.token, http.MethodGet, "/accounts"+cursor(r), nil, &accounts); err != nil {
		c.failed(w, r, s, err)
		return
	}
	type row struct {
		webhook
		Account string
	}
	var rows []row
	for _, a := range accounts.Items {
		var hooks list[webhook]
		if err := c.api.call(r, s.token, http.MethodGet, "/accounts/"+a.ID+"/webhooks?limit=100", nil, &hooks); err != nil {
			c.failed(w, r, s, err)
			return
		}
		for _, h := range hooks.Items {
			rows = append(rows, row{h, a.Name})
		}
	}
	c.show(w, s, http.StatusOK, "webhooks", view{Title: "Subscriptions", Section: "webhooks", Data: rows, Next: next(r, accounts.Next)})
}

// deliveryLog is what the log of a subscription, or of an event, shows.
type deliveryLog struct {
	At      string   // address of the page
	Webhook *webhook // nil: of an event
	EventID string
	Outcome string
	Items   []delivery
}

// deliveries shows the log of one subscription.
func (c *Console) deliveries(w http.ResponseWriter, r *http.Request, s *session) {
	log := deliveryLog{At: Path + "webhooks/" + id(r), Webhook: new(webhook)}
	if err := c.api.call(r, s.token, http.MethodGet, "/webhooks/"+id(r), nil, log.Webhook); err != nil {
		c.failed(w, r, s, err)
		return
	}
	c.showLog(w, r, s, "/webhooks/"+id(r)+"/deliveries", log)
}

// event shows what became of one event at every subscription.
func (c *Console) event(w http.ResponseWriter, r *http.Request, s *session) {
	c.showLog(w, r, s, "/events/"+id(r)+"/deliveries", deliveryLog{At: Path + "events/" + id(r), EventID: r.PathValue("id")})
}

func (c *Console) showLog(w http.ResponseWriter, r *http.Request, s *session, from string, log deliveryLog) {
	log.Outcome = r.URL.Query().Get("outcome")
	var items list[delivery]
	if err := c.api.call(r, s.token, http.MethodGet, from+cursor(r)+"&outcome="+url.QueryEscape(log.Outcome), nil, &items); err != nil {
		c.failed(w, r, s, err)
		return
	}
	log.Items = items.Items
	c.show(w, s, http.StatusOK, "deliveries", view{Title: "Deliveries", Section: "webhooks", Data: log, Next: next(r, items.Next)})
}

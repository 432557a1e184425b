package console

import (
	"bytes"
	"encoding/json"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"

	"partneredge/edge/adminapi"
)

// page reads the data that a page shows.
type page func(*visit) (view, error)

// view is the data of a page's template. Pages set its first part.
type view struct {
	page           string // name of the template
	Title, Section string
	Data           any
	Next           string // address of the next page of a list

	Who     *adminapi.Whoami // nil before login
	CSRF    string
	Notices []notice
}

// May reports whether who is logged in has the role, or a higher one.
func (v view) May(role string) bool {
	rank := map[string]int{"viewer": 1, "operator": 2, "admin": 3}
	return v.Who != nil && rank[v.Who.Role] >= rank[role]
}

// keyForms holds the data of the forms that rotate and revoke a key.
type keyForms struct {
	CSRF string
	Key  adminapi.Key
}

// tab is a link to one of the console's sections.
type tab struct {
	To, Name string
	Here     bool
}

func parsePages(now func() time.Time) (map[string]*template.Template, error) {
	shared := template.New("").Funcs(template.FuncMap{
		"stamp": stampText,
		"ago":   func(t adminapi.Time) string { return agoText(t, now()) },
		"ended": func(t adminapi.Time) bool { return !t.IsZero() && !now().Before(t.Time) },
		"days":  func() []string { return []string{"1", "7", "30", "90", "365"} },
		"json":  jsonText,
		"join":  func(s []string) string { return strings.Join(s, ", ") },
		"outcomes": func() []string {
			return []string{"", "pending", "delivered", "dead", "refused", "cancelled"}
		},
		"eventTypes": adminapi.EventTypes,
		"lastTry": func(d adminapi.Delivery) *adminapi.Try {
			if len(d.Tries) == 0 {
				return nil
			}
			return &d.Tries[len(d.Tries)-1]
		},
		"failed":   failed,
		"minutes":  func(t adminapi.Time) string { return t.UTC().Format(formMinutes) },
		"statuses": func() []string { return []string{"", "2xx", "4xx", "401", "403", "429", "5xx"} },
		"checked":  checked,
		"sent":     sent,
		"keyForms": func(v view, k adminapi.Key) keyForms { return keyForms{v.CSRF, k} },
		"tab":      func(v view, section, to, name string) tab { return tab{to, name, v.Section == section} },
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
		one, err := shared.Clone()
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(entry.Name(), ".html")
		if pages[name], err = one.ParseFS(pageFiles, path.Join("pages", entry.Name())); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

func stampText(t adminapi.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format(time.DateTime)
}

func agoText(t adminapi.Time, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := max(now.Sub(t.Time), 0)
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

// jsonText indents a record of the audit log. It returns "" for null.
func jsonText(raw json.RawMessage) string {
	var b bytes.Buffer
	if string(raw) == "null" || json.Indent(&b, raw, "", "  ") != nil {
		return ""
	}
	return b.String()
}

// showPage serves a page.
func (c *Console) showPage(p page) func(http.ResponseWriter, *visit) {
	return func(w http.ResponseWriter, v *visit) {
		view, err := p(v)
		if err != nil {
			c.fail(w, v, err)
			return
		}
		c.write(w, v.session, http.StatusOK, view)
	}
}

// write makes a page and sends it. s is nil without a session.
func (c *Console) write(w http.ResponseWriter, s *session, status int, v view) {
	if s != nil {
		v.Who, v.CSRF, v.Notices = &s.who, s.csrf, c.sessions.takeNotices(s)
	}
	var b bytes.Buffer
	if err := c.pages[v.page].ExecuteTemplate(&b, "layout", v); err != nil {
		c.cfg.Log.Error("cannot render a page", "page", v.page, "err", err)
		http.Error(w, "This page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may be gone
}

// list returns the page of one of the admin API's lists.
func list[T any](from, name, title string) page {
	return func(v *visit) (view, error) {
		var items adminapi.List[T]
		err := v.get(from+v.page(), &items)
		return view{page: name, Title: title, Section: name, Data: items.Items, Next: v.next(items.NextCursor)}, err
	}
}

// account reads one account with its keys and subscriptions.
func account(v *visit) (view, error) {
	var data struct {
		Account  adminapi.Account
		Keys     adminapi.List[adminapi.Key]
		Webhooks subscriptions
		Scopes   []string
	}
	data.Scopes = adminapi.Scopes()
	at := "/accounts/" + v.id()
	for from, into := range map[string]any{at: &data.Account, at + "/keys" + v.page(): &data.Keys} {
		if err := v.get(from, into); err != nil {
			return view{}, err
		}
	}
	var err error
	data.Webhooks, err = subscriptionsOf(v, data.Account)
	return view{page: "account", Title: data.Account.Name, Section: "accounts", Data: data, Next: v.next(data.Keys.NextCursor)}, err
}

// webhooks reads the subscriptions of one page of accounts.
func webhooks(v *visit) (view, error) {
	var accounts adminapi.List[adminapi.Account]
	if err := v.get("/accounts"+v.page(), &accounts); err != nil {
		return view{}, err
	}
	var data []subscriptions // of accounts that have any
	for _, a := range accounts.Items {
		of, err := subscriptionsOf(v, a)
		if err != nil {
			return view{}, err
		}
		if len(of.Items) > 0 {
			data = append(data, of)
		}
	}
	return view{page: "webhooks", Title: "Subscriptions", Section: "webhooks", Data: data, Next: v.next(accounts.NextCursor)}, nil
}

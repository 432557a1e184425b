package console

import (
	"net/url"
	"time"

	"partneredge/edge/adminapi"
)

// formTime is the layout of a field of a form that is a time in UTC. Browsers leave the
// seconds out when they are 0.
const (
	formTime    = "2006-01-02T15:04:05"
	formMinutes = "2006-01-02T15:04"
)

// span is a time range as a page's own query has it, for its form.
type span struct{ Since, Until string }

// span puts the time range of the page's own query into one of the admin API. wrong says
// why it cannot be, "" if it can.
func (v *visit) span(query url.Values) (s span, wrong string) {
	asked := v.URL.Query()
	s = span{asked.Get("since"), asked.Get("until")}
	for name, value := range map[string]string{"since": s.Since, "until": s.Until} {
		if value == "" {
			continue
		}
		at, err := time.Parse(formTime, value)
		if err != nil {
			at, err = time.Parse(formMinutes, value)
		}
		if err != nil {
			wrong = "Times are such as 2026-01-31T12:00, in UTC."
			continue
		}
		query.Set(name, at.UTC().Format(time.RFC3339))
	}
	return s, wrong
}

// spanned is a list of a time range.
type spanned[T any] struct {
	span
	Target string // whose changes are asked for, in the audit log
	Wrong  string // why the list cannot be; "": it can
	Items  []T
}

// listIn returns the page of one of the admin API's lists that has a time range.
func listIn[T any](from, name, title string) page {
	return func(v *visit) (view, error) {
		data := spanned[T]{Target: v.URL.Query().Get("target")}
		query := url.Values{"limit": {"50"}}
		if cursor := v.URL.Query().Get("cursor"); cursor != "" {
			query.Set("cursor", cursor)
		}
		if data.Target != "" {
			query.Set("target", data.Target)
		}
		data.span, data.Wrong = v.span(query)
		shown := view{page: name, Title: title, Section: name}
		var items adminapi.List[T]
		if data.Wrong == "" {
			if err := wrongFilter(v.get(from+"?"+query.Encode(), &items), &data.Wrong); err != nil {
				return shown, err
			}
		}
		data.Items = items.Items
		shown.Data, shown.Next = data, v.next(items.NextCursor)
		return shown, nil
	}
}

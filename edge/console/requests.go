package console

import (
	"net/url"
	"strings"

	"partneredge/edge/adminapi"
)

// requestSearch holds the search of the page of requests, and the requests found.
type requestSearch struct {
	adminapi.Requests
	Asked, Status, Region string
	span
	Hint  string // why nothing was found
	Wrong string // what the search cannot be; "": nothing
	CSV   string // address of what was found as CSV
}

// requests finds what nodes lately answered: the request of an id, or those that the
// page's own query selects by key, account, status, region and time.
func requests(v *visit) (view, error) {
	asked := v.URL.Query()
	data := requestSearch{Asked: strings.TrimSpace(asked.Get("q")), Status: asked.Get("status"), Region: strings.TrimSpace(asked.Get("region")), CSV: v.asCSV()}
	shown := view{page: "requests", Title: "Requests", Section: "requests"}
	query := url.Values{"limit": {v.rows("100")}}
	for name, value := range map[string]string{"status": data.Status, "region": data.Region} {
		if value != "" {
			query.Set(name, value)
		}
	}
	data.span, data.Wrong = v.span(query)
	var err error
	switch kind, _, _ := strings.Cut(data.Asked, "_"); {
	case data.Wrong != "":
	case kind == "req":
		var found adminapi.Request
		err = v.get("/requests/"+url.PathEscape(data.Asked), &found)
		if refused, ok := refusedAs(err, "not_found", "invalid_parameter"); ok {
			data.Hint, err = refusal(refused), nil
		} else if err == nil {
			data.Items = append(data.Items, found)
		}
	case data.Asked != "" && kind != "acc" && kind != "key":
		data.Hint = "that is no id of a request (req_…), an account (acc_…) or a key (key_…)"
	default:
		switch kind {
		case "acc":
			query.Set("account_id", data.Asked)
		case "key":
			query.Set("key_id", data.Asked)
		}
		err = wrongFilter(v.get("/requests?"+query.Encode(), &data.Requests), &data.Wrong)
	}
	shown.Data = data
	return shown, err
}

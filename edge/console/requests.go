package console

import (
	"net/url"
	"strings"

	"partneredge/edge/adminapi"
)

// requests finds what nodes lately answered: the request of an id, or those of a key or
// an account, by what the page's own query asks for.
func requests(v *visit) (view, error) {
	var data struct {
		adminapi.Requests
		Asked string
		Hint  string // why nothing was found
	}
	data.Asked = strings.TrimSpace(v.URL.Query().Get("q"))
	shown := view{page: "requests", Title: "Requests", Section: "requests"}
	escaped := url.PathEscape(data.Asked)
	var err error
	switch kind, _, _ := strings.Cut(data.Asked, "_"); {
	case data.Asked == "":
	case kind == "req":
		var found adminapi.Request
		err = v.get("/requests/"+escaped, &found)
		if refused, ok := refusedAs(err, "not_found", "invalid_parameter"); ok {
			data.Hint, err = refusal(refused), nil
		} else if err == nil {
			data.Items = append(data.Items, found)
		}
	case kind == "acc":
		err = v.get("/accounts/"+escaped+"/requests?limit=100", &data.Requests)
	case kind == "key":
		err = v.get("/keys/"+escaped+"/requests?limit=100", &data.Requests)
	default:
		data.Hint = "that is no id of a request (req_…), an account (acc_…) or a key (key_…)"
	}
	shown.Data = data
	return shown, err
}

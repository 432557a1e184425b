package console

import (
	"net/http"
	"net/url"
	"strings"

	"partneredge/edge/adminapi"
)

// deliveryLog is the data of the log of a subscription, or of an event.
type deliveryLog struct {
	At      string            // address of the page
	Webhook *adminapi.Webhook // nil: of an event
	EventID string
	Outcome string
	Items   []adminapi.Delivery
}

func webhookLog(v *visit) (view, error) {
	log := deliveryLog{At: Path + "webhooks/" + v.id(), Webhook: new(adminapi.Webhook)}
	if err := v.get("/webhooks/"+v.id(), log.Webhook); err != nil {
		return view{}, err
	}
	return log.read(v, "/webhooks/"+v.id()+"/deliveries")
}

// eventLog reads the deliveries of one event to every subscription.
func eventLog(v *visit) (view, error) {
	log := deliveryLog{At: Path + "events/" + v.id(), EventID: v.PathValue("id")}
	return log.read(v, "/events/"+v.id()+"/deliveries")
}

func (log deliveryLog) read(v *visit, from string) (view, error) {
	var items adminapi.List[adminapi.Delivery]
	err := v.get(from+v.page()+v.query("outcome"), &items)
	log.Items, log.Outcome = items.Items, v.URL.Query().Get("outcome")
	return view{page: "deliveries", Title: "Deliveries", Section: "webhooks", Data: log, Next: v.next(items.NextCursor)}, err
}

// deliveryFilter holds the query of the page of all deliveries.
type deliveryFilter struct {
	Account, Target, EventType, Outcome string
	span
	Items []adminapi.Delivery
	Wrong string // what the filter cannot be; "": nothing
	CSV   string // address of what is selected as CSV
}

// allDeliveries reads the deliveries to all subscriptions that a filter selects.
func allDeliveries(v *visit) (view, error) {
	asked := v.URL.Query()
	data := deliveryFilter{
		Account: strings.TrimSpace(asked.Get("account_id")), Target: strings.TrimSpace(asked.Get("target")), EventType: asked.Get("event_type"),
		Outcome: asked.Get("outcome"), CSV: v.asCSV(),
	}
	shown := view{page: "alldeliveries", Title: "Deliveries", Section: "deliveries"}
	query := url.Values{"limit": {v.rows("50")}}
	for name, value := range map[string]string{
		"account_id": data.Account, "target": data.Target, "event_type": data.EventType, "outcome": data.Outcome, "cursor": asked.Get("cursor"),
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	data.span, data.Wrong = v.span(query)
	var items adminapi.List[adminapi.Delivery]
	if data.Wrong == "" {
		if err := wrongFilter(v.get("/deliveries?"+query.Encode(), &items), &data.Wrong); err != nil {
			return shown, err
		}
	}
	data.Items = items.Items
	shown.Data, shown.Next = data, v.next(items.NextCursor)
	return shown, nil
}

// wrongFilter keeps why the admin API refused a filter, to be shown beside it, and
// returns other errors.
func wrongFilter(err error, why *string) error {
	refused, ok := err.(*adminapi.Error) //nolint:errorlint // Call returns it as it is
	if !ok {
		return err
	}
	switch refused.Status {
	case http.StatusBadRequest:
		*why = "Not a filter: " + refusal(refused) + "."
		return nil
	case http.StatusNotFound:
		*why = "There is no such account."
		return nil
	}
	return err
}

// delivery reads one delivery with what was sent and answered, by its id or by that
// of a try.
func delivery(v *visit) (view, error) {
	var data struct {
		adminapi.Delivery
		Asked string
	}
	data.Asked = v.PathValue("id")
	err := v.get("/deliveries/"+v.id(), &data.Delivery)
	return view{page: "delivery", Title: "Delivery", Section: "deliveries", Data: data}, err
}

// search leads to the page of the record whose id is looked for.
func (c *Console) search(w http.ResponseWriter, v *visit) {
	id := strings.TrimSpace(v.URL.Query().Get("q"))
	to, err := v.pageOf(id)
	if err != nil {
		c.fail(w, v, err)
		return
	}
	if to == "" {
		c.problem(w, v.session, http.StatusNotFound,
			"There are pages for what begins with acc_, key_, whs_, evt_, dlv_, req_, lead_, qtn_, node_, rel_, rol_ or tok_; of other records the audit log may know.")
		return
	}
	http.Redirect(w, v.Request, to, http.StatusSeeOther)
}

// pageOf returns the address of the page that shows the record of an id, "" for none.
func (v *visit) pageOf(id string) (to string, err error) {
	escaped := url.PathEscape(id)
	prefix, _, found := strings.Cut(id, "_")
	if !found {
		return "", nil
	}
	switch prefix {
	case "acc":
		return Path + "accounts/" + escaped, nil
	case "whs":
		return Path + "webhooks/" + escaped, nil
	case "evt":
		return Path + "events/" + escaped, nil
	case "dlv":
		return Path + "deliveries/" + escaped, nil
	case "req":
		return Path + "requests?q=" + url.QueryEscape(id), nil
	case "qtn":
		return Path + "quarantine/" + escaped, nil
	case "key":
		return Path + "keys/" + escaped, nil
	case "lead":
		var lead adminapi.Lead
		err = v.get("/leads/"+escaped, &lead)
		return Path + "accounts/" + url.PathEscape(lead.AccountID), err
	case "node":
		return Path + "nodes#" + escaped, nil
	case "rel", "rol":
		return Path + "releases", nil
	case "tok", "agt", "con", "ins", "fir":
		return Path + "audit?target=" + url.QueryEscape(id), nil
	}
	return "", nil
}

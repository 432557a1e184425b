package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// showRequest finds the request of an id at the node that answered it.
func (a *api) showRequest(r *http.Request) (answer, error) {
	id := r.PathValue("id")
	if !strings.HasPrefix(id, "req_") || len(id) != len("req_")+26 {
		return answer{}, &input.Problem{Kind: input.KindParameter, Reason: "request_id_invalid", Detail: "a request's id is req_ and 26 characters, as in the header X-Request-Id"}
	}
	list, err := a.askRequests(r, "", wire.RequestsRequest{ID: id})
	if err != nil {
		return answer{}, err
	}
	if len(list.Items) > 0 {
		return ok(list.Items[0], nil)
	}
	detail := "no node keeps it: each keeps the last 256 requests of a key, in memory"
	for i, n := range list.Unreached {
		detail += []string{"; not asked: ", ", "}[min(i, 1)] + n.Node + " in " + n.Region + " (" + n.Reason + ")"
	}
	return answer{}, &input.Problem{Kind: input.KindNotFound, Reason: "request_not_kept", Detail: detail}
}

// listAccountRequests lists the newest requests of an account.
func (a *api) listAccountRequests(r *http.Request) (answer, error) {
	return a.listRequests(r, wire.RequestsRequest{AccountID: r.PathValue("id")})
}

// listKeyRequests lists the newest requests of a key.
func (a *api) listKeyRequests(r *http.Request) (answer, error) {
	return a.listRequests(r, wire.RequestsRequest{KeyID: r.PathValue("id")})
}

// listAllRequests lists the newest requests that the query selects.
func (a *api) listAllRequests(r *http.Request) (answer, error) {
	query := r.URL.Query()
	return a.listRequests(r, wire.RequestsRequest{AccountID: query.Get("account_id"), KeyID: query.Get("key_id")})
}

func (a *api) listRequests(r *http.Request, req wire.RequestsRequest) (answer, error) {
	page, err := pageOf(r)
	if err != nil {
		return answer{}, err
	}
	span, err := spanOf(r)
	if err != nil {
		return answer{}, err
	}
	req.Since, req.Until = span.Since, span.Until
	if req.Least, req.Most, err = statusesOf(r.URL.Query().Get("status")); err != nil {
		return answer{}, err
	}
	req.Limit = cmp.Or(page.Limit, 50)
	list, err := a.askRequests(r, r.URL.Query().Get("region"), req)
	return ok(list, err)
}

// statusesOf reads ?status: three digits, or the first of them and xx.
func statusesOf(text string) (least, most int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	class, whole := strings.CutSuffix(text, "xx")
	n, err := strconv.Atoi(class)
	switch {
	case err == nil && whole && n >= 1 && n <= 5:
		return 100 * n, 100*n + 99, nil
	case err == nil && n >= 100 && n <= 599:
		return n, n, nil
	}
	return 0, 0, &input.Problem{Kind: input.KindParameter, Reason: "status_invalid", Detail: "status must be such as 429 or 5xx"}
}

// maxAsking bounds the calls that ask nodes about requests at a time, since the answers of
// thousands of nodes may come at once. More wait.
const maxAsking = 2

// askRequests asks the nodes of a region, or all, and keeps the newest req.Limit of what
// they answer; 0: wire.MaxRequests.
func (a *api) askRequests(r *http.Request, region string, req wire.RequestsRequest) (adminapi.Requests, error) {
	select {
	case a.asking <- struct{}{}:
		defer func() { <-a.asking }()
	case <-r.Context().Done():
		return adminapi.Requests{}, r.Context().Err()
	}
	limit := cmp.Or(req.Limit, wire.MaxRequests)
	list := adminapi.Requests{Items: []adminapi.Request{}, Unreached: []adminapi.UnreachedNode{}}
	a.Requests(r.Context(), region, req, func(at replication.NodeAnswer[wire.RequestsReply]) {
		if at.Err != nil {
			list.Unreached = append(list.Unreached, unreached(at.Node, at.Err))
			return
		}
		for _, one := range at.Reply.Requests {
			if req.Selects(&one) { // an older node lists others as well
				list.Items = append(list.Items, toRequest(at.Node, one))
			}
		}
		slices.SortFunc(list.Items, newerRequest)
		list.Items = slices.Delete(list.Items, min(len(list.Items), limit), len(list.Items))
	})
	sortUnreached(list.Unreached)
	return list, nil
}

func newerRequest(a, b adminapi.Request) int {
	return cmp.Or(b.At.Compare(a.At.Time), cmp.Compare(b.ID, a.ID))
}

func toRequest(at store.Node, one wire.AnsweredRequest) adminapi.Request {
	return adminapi.Request{
		ID: one.ID, At: stamp(one.At), NodeID: at.ID, Node: at.Name, Region: at.Region,
		KeyID: one.KeyID, AccountID: one.AccountID, Method: one.Method, Route: one.Route, Status: one.Status,
		DurationMS: float64(one.TookUS) / 1000, Error: one.Code, Reason: one.Reason,
	}
}

package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"partneredge/edge/adminapi"
	"partneredge/edge/wire"
)

// showRequest finds the request of an id at the node that answered it.
func (a *api) showRequest(r *http.Request) (answer, error) {
	id := r.PathValue("id")
	if !strings.HasPrefix(id, "req_") || len(id) != len("req_")+26 {
		return answer{}, &problem{Kind: kindParameter, Reason: "request_id_invalid", Detail: "a request's id is req_ and 26 characters, as in the header X-Request-Id"}
	}
	list := a.askRequests(r, wire.RequestsRequest{ID: id})
	if len(list.Items) > 0 {
		return ok(list.Items[0], nil)
	}
	detail := "no node keeps it: each keeps the last 256 requests of a key, in memory"
	for i, n := range list.Unreached {
		detail += []string{"; not asked: ", ", "}[min(i, 1)] + n.Node + " in " + n.Region + " (" + n.Reason + ")"
	}
	return answer{}, &problem{Kind: kindNotFound, Reason: "request_not_kept", Detail: detail}
}

// listAccountRequests lists the newest requests of an account.
func (a *api) listAccountRequests(r *http.Request) (answer, error) {
	return a.listRequests(r, wire.RequestsRequest{AccountID: r.PathValue("id")})
}

// listKeyRequests lists the newest requests of a key.
func (a *api) listKeyRequests(r *http.Request) (answer, error) {
	return a.listRequests(r, wire.RequestsRequest{KeyID: r.PathValue("id")})
}

func (a *api) listRequests(r *http.Request, req wire.RequestsRequest) (answer, error) {
	page, err := pageOf(r)
	if err != nil {
		return answer{}, err
	}
	req.Limit = cmp.Or(page.Limit, 50)
	list := a.askRequests(r, req)
	list.Items = list.Items[:min(len(list.Items), req.Limit)]
	return ok(list, nil)
}

// askRequests asks all nodes.
func (a *api) askRequests(r *http.Request, req wire.RequestsRequest) adminapi.Requests {
	list := adminapi.Requests{Items: []adminapi.Request{}, Unreached: []adminapi.UnreachedNode{}}
	for _, at := range a.Requests(r.Context(), req) {
		if at.Err != nil {
			list.Unreached = append(list.Unreached, unreached(at.Node, at.Err))
			continue
		}
		for _, one := range at.Reply.Requests {
			list.Items = append(list.Items, adminapi.Request{
				ID: one.ID, At: stamp(one.At), NodeID: at.Node.ID, Node: at.Node.Name, Region: at.Node.Region,
				KeyID: one.KeyID, AccountID: one.AccountID, Method: one.Method, Route: one.Route, Status: one.Status,
				DurationMS: float64(one.TookUS) / 1000, Error: one.Code, Reason: one.Reason,
			})
		}
	}
	slices.SortFunc(list.Items, func(a, b adminapi.Request) int { return cmp.Or(b.At.Compare(a.At.Time), cmp.Compare(b.ID, a.ID)) })
	sortUnreached(list.Unreached)
	return list
}

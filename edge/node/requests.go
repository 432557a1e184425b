package node

import (
	"partneredge/edge/node/requestlog"
	"partneredge/edge/wire"
)

// answeredRequests answers the origin's question about requests of the log.
func (n *Node) answeredRequests(req wire.RequestsRequest) *wire.RequestsReply {
	reply := new(wire.RequestsReply)
	add := func(e requestlog.Entry) {
		reply.Requests = append(reply.Requests, wire.AnsweredRequest{
			ID: e.ID, At: e.At.UTC(), TookUS: e.Took.Microseconds(), KeyID: e.KeyID, AccountID: e.AccountID,
			Method: e.Method, Route: e.Route, Status: e.Status, Code: e.Code, Reason: e.Reason,
		})
	}
	if req.ID != "" {
		if e, found := n.requests.Find(req.ID); found {
			add(e)
		}
		return reply
	}
	limit := req.Limit
	if limit <= 0 || limit > wire.MaxRequests {
		limit = wire.MaxRequests
	}
	for _, e := range n.requests.List(req.KeyID, req.AccountID, limit) {
		add(e)
	}
	return reply
}

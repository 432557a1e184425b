package node

import (
	"partneredge/edge/node/requestlog"
	"partneredge/edge/wire"
)

// answeredRequests answers the origin's question about requests of the log.
func (n *Node) answeredRequests(req wire.RequestsRequest) *wire.RequestsReply {
	reply := new(wire.RequestsReply)
	if req.ID != "" {
		if e, found := n.requests.Find(req.ID); found {
			reply.Requests = append(reply.Requests, answered(&e))
		}
		return reply
	}
	limit := req.Limit
	if limit <= 0 || limit > wire.MaxRequests {
		limit = wire.MaxRequests
	}
	keep := func(e *requestlog.Entry) bool {
		one := answered(e)
		return req.Selects(&one)
	}
	for _, e := range n.requests.List(req.KeyID, req.AccountID, limit, keep) {
		reply.Requests = append(reply.Requests, answered(&e))
	}
	return reply
}

func answered(e *requestlog.Entry) wire.AnsweredRequest {
	return wire.AnsweredRequest{
		ID: e.ID, At: e.At.UTC(), TookUS: e.Took.Microseconds(), KeyID: e.KeyID, AccountID: e.AccountID,
		Method: e.Method, Route: e.Route, Status: e.Status, Code: e.Code, Reason: e.Reason,
	}
}

package node

import "partneredge/edge/wire"

// answeredRequests answers the origin's question about requests of the log.
func (n *Node) answeredRequests(req wire.RequestsRequest) *wire.RequestsReply {
	reply := new(wire.RequestsReply)
	if req.ID != "" {
		if one, found := n.requests.Find(req.ID); found {
			reply.Requests = append(reply.Requests, one)
		}
		return reply
	}
	limit := req.Limit
	if limit <= 0 || limit > wire.MaxRequests {
		limit = wire.MaxRequests
	}
	reply.Requests = n.requests.List(req.KeyID, req.AccountID, limit, req.Selects)
	return reply
}

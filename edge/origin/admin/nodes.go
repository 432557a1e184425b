package admin

import (
	"encoding/json"
	"net/http"

	"partneredge/edge/adminapi"
	"partneredge/store"
)

// enrolNode makes a node and its credentials, which nobody can show again.
func (a *api) enrolNode(r *http.Request) (answer, error) {
	var in adminapi.NewNode
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_node"}
	node := store.Node{Name: c.text("name", in.Name, maxName), Region: c.word("region", in.Region)}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	node.ID = store.NewID("node", a.Now())
	credentials, publicKey, err := a.Credentials(node.ID)
	if err != nil {
		return answer{}, err
	}
	node.PublicKey = publicKey
	if node, err = a.DB.AddNode(r.Context(), node); err != nil {
		return answer{}, err
	}
	a.Nodes.Put(node)
	return created(adminapi.EnrolledNode{Node: toNode(node, a.Nodes.Report(node.ID)), Credentials: credentials})
}

func (a *api) listNodes(r *http.Request) (answer, error) {
	return list(r, func(p store.Page) ([]store.Node, string, error) {
		return a.DB.Nodes(r.Context(), p)
	}, func(n store.Node) adminapi.Node { return toNode(n, a.Nodes.Report(n.ID)) })
}

// revokeNode voids the node's credentials and ends its connection. What it holds
// it can go on serving until it takes its records for stale.
func (a *api) revokeNode(r *http.Request) (answer, error) {
	if err := decodeOptional(r, &struct{}{}); err != nil {
		return answer{}, err
	}
	node, _, err := a.DB.RevokeNode(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	a.Nodes.Put(node)
	if err := a.Nodes.Refresh(r.Context()); err != nil {
		// It is revoked all the same: its requests are refused, and the next refresh
		// tells NATS.
		a.Log.Warn("ending the connection of a revoked node", "node", node.ID, "err", err)
	}
	return ok(toNode(node, a.Nodes.Report(node.ID)))
}

// openAPI answers with the description of this API.
func (a *api) openAPI(*http.Request) (answer, error) {
	return ok(json.RawMessage(adminapi.OpenAPI()))
}

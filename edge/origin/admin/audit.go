package admin

import (
	"encoding/json"
	"net/http"

	"partneredge/store"
)

type auditView struct {
	ID     string          `json:"id"`
	At     stamp           `json:"at"`
	Actor  actorView       `json:"actor"`
	Action string          `json:"action"`
	Target string          `json:"target"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

type actorView struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Role   string `json:"role"`
	Remote string `json:"remote"`
}

func viewAudit(a store.Audit) auditView {
	return auditView{
		a.ID, stamp(a.At), actorView{a.Actor.ID, a.Actor.Name, string(a.Actor.Role), a.Actor.Remote},
		a.Action, a.Target, a.Before, a.After,
	}
}

// listAudit shows who changed what; ?target picks one record's changes.
func (a *api) listAudit(r *http.Request) (answer, error) {
	return list(r, func(p store.Page) ([]store.Audit, string, error) {
		return a.DB.Audits(r.Context(), r.URL.Query().Get("target"), p)
	}, shown(viewAudit))
}

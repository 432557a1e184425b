package admin

import (
	"net/http"

	"partneredge/store"
)

// listAudit shows who changed what; ?target picks one record's changes.
func (a *api) listAudit(r *http.Request) (answer, error) {
	return list(r, func(p store.Page) ([]store.Audit, string, error) {
		return a.DB.Audits(r.Context(), r.URL.Query().Get("target"), p)
	}, toAudit)
}

// Package webhooks creates and revokes webhook subscriptions.
package webhooks

import (
	"strings"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
	"partneredge/wasm/handlers"
)

// Handle answers POST /api/v2/public/webhooks/subscribe and
// DELETE /api/v2/public/webhooks/{id}, whose id is the parameter id. A subscription with an
// Idempotency-Key is made once: for 24 hours the same request gets the first
// answer again, with its secret.
func Handle(req *abi.Request, resp *abi.Response, subscriptions handlers.Subscriptions) {
	if req.Method == "DELETE" {
		revoke(req.Param("id"), resp, subscriptions)
		return
	}
	subscribe(req, resp, subscriptions)
}

func revoke(id string, resp *abi.Response, subscriptions handlers.Subscriptions) {
	if id == "" {
		answer.Error(resp, 400, "invalid_id", "")
		return
	}
	already, err := false, error(abi.CodeNotFound)
	if mayBeID(id) {
		already, err = subscriptions.Revoke(id)
	}
	switch {
	case err == abi.CodeNotFound:
		answer.Error(resp, 404, "subscription_not_found", "")
	case err != nil:
		answer.Internal(resp)
	case already:
		resp.Status = 200
		resp.Body = append(resp.Body[:0], `{"ok":true,"already_revoked":true}`...)
	default:
		resp.Status = 200
		resp.Body = append(resp.Body[:0], `{"ok":true}`...)
	}
}

// mayBeID reports whether id could be an identifier of a subscription, so that
// the host is not asked for others.
func mayBeID(id string) bool {
	return len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

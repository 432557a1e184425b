package admin

import "net/http"

// route is one method and path of the admin API.
type route struct {
	pattern string // as of http.ServeMux
	serve   func(*http.Request) (answer, error)
}

// answer is what is sent when all went well.
type answer struct {
	status int
	body   any
}

func ok(body any) (answer, error)      { return answer{http.StatusOK, body}, nil }
func created(body any) (answer, error) { return answer{http.StatusCreated, body}, nil }

// createdIf is 201 when something new arose and 200 when not.
func createdIf(arose bool, body any) (answer, error) {
	if arose {
		return created(body)
	}
	return ok(body)
}

// all routes, each of which is in openapi.json.
func (a *api) all() []route {
	return []route{
		{"POST /admin/v1/accounts", a.createAccount},
		{"GET /admin/v1/accounts", a.listAccounts},
		{"GET /admin/v1/accounts/{id}", a.getAccount},
		{"PATCH /admin/v1/accounts/{id}", a.patchAccount},

		{"POST /admin/v1/accounts/{id}/keys", a.createKey},
		{"GET /admin/v1/accounts/{id}/keys", a.listKeys},
		{"POST /admin/v1/keys/{id}/rotate", a.rotateKey},
		{"POST /admin/v1/keys/{id}/revoke", a.revokeKey},

		{"POST /admin/v1/accounts/{id}/coaching-runs", a.addCoachingRun},
		{"POST /admin/v1/accounts/{id}/sentinel-firings", a.addFiring},
		{"PUT /admin/v1/accounts/{id}/deals/{deal_id}", a.putDeal},
		{"POST /admin/v1/accounts/{id}/contacts", a.addContact},
		{"PUT /admin/v1/accounts/{id}/goals/{goal_id}", a.putGoal},

		{"GET /admin/v1/accounts/{id}/leads", a.listLeads},
		{"GET /admin/v1/accounts/{id}/webhooks", a.listWebhooks},
		{"GET /admin/v1/webhooks/{id}", a.getWebhook},
		{"POST /admin/v1/webhooks/{id}/rotate-secret", a.rotateSecret},
		{"GET /admin/v1/webhooks/{id}/deliveries", a.listDeliveries},
		{"GET /admin/v1/events/{id}/deliveries", a.listEventDeliveries},
		{"GET /admin/v1/deliveries/tail", a.tailDeliveries},
		{"GET /admin/v1/accounts/{id}/events", a.followEvents},
		{"GET /admin/v1/deliveries/{id}", a.getDelivery},
		{"POST /admin/v1/deliveries/{id}/retry", a.retryDelivery},
		{"POST /admin/v1/webhooks/{id}/recover", a.recoverDeliveries},

		{"POST /admin/v1/nodes", a.enrolNode},
		{"GET /admin/v1/nodes", a.listNodes},
		{"POST /admin/v1/nodes/{id}/revoke", a.revokeNode},
		{"DELETE /admin/v1/nodes/{id}", a.revokeNode},

		{"POST /admin/v1/releases", a.createRelease},
		{"GET /admin/v1/releases", a.listReleases},
		{"GET /admin/v1/releases/{id}", a.getRelease},
		{"POST /admin/v1/releases/{id}/promote", a.promoteRelease},
		{"POST /admin/v1/releases/{id}/rollback", a.rollbackRelease},
		{"GET /admin/v1/rollouts", a.listRollouts},
		{"GET /admin/v1/rollouts/{id}", a.getRollout},

		{"POST /admin/v1/tokens", a.createToken},
		{"GET /admin/v1/tokens", a.listTokens},
		{"POST /admin/v1/tokens/{id}/revoke", a.revokeToken},
		{"GET /admin/v1/whoami", a.whoami},
		{"GET /admin/v1/audit", a.listAudit},

		{"GET /admin/v1/traffic", a.showTraffic},
		{"GET /admin/v1/outcomes", a.showOutcomes},

		{"GET /admin/v1/openapi.json", a.openAPI},
	}
}

package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
	"partneredge/store/central"
)

// handler serves a route: it returns what to answer, or why there is no answer.
type handler func(*http.Request) (answer, error)

// route is one method and path of the admin API.
type route struct {
	pattern string // as of http.ServeMux
	serve   handler
}

// all returns every route, each of which is in openapi.json.
func (a *api) all() []route {
	return slices.Concat(a.accountRoutes(), a.webhookRoutes(), a.fleetRoutes(), a.operatorRoutes())
}

// accountRoutes serves accounts, their keys, what their sources write, and leads.
func (a *api) accountRoutes() []route {
	return []route{
		{"POST /admin/v1/accounts", body("invalid_account", a.createAccount)},
		{"GET /admin/v1/accounts", list(a, (*central.DB).Accounts, toAccount)},
		{"GET /admin/v1/accounts/{id}", get(a, (*central.DB).Account, toAccount)},
		{"PATCH /admin/v1/accounts/{id}", body("invalid_account", a.patchAccount)},
		{"DELETE /admin/v1/accounts/{id}", noBody(a.eraseAccount)},
		{"GET /admin/v1/accounts/{id}/export", a.exportAccount},
		{"POST /admin/v1/accounts/{id}/keys", body("invalid_key", a.createKey)},
		{"GET /admin/v1/accounts/{id}/keys", a.bounded(a.listAccountKeys)},
		{"POST /admin/v1/keys/{id}/rotate", optionalBody("invalid_rotation", a.rotateKey)},
		{"POST /admin/v1/keys/{id}/revoke", noBody(a.revokeKey)},
		{"POST /admin/v1/accounts/{id}/coaching-runs", body("invalid_coaching_run", a.addCoachingRun)},
		{"POST /admin/v1/accounts/{id}/sentinel-firings", body("invalid_sentinel_firing", a.addFiring)},
		{"PUT /admin/v1/accounts/{id}/deals/{deal_id}", body("invalid_deal", a.putDeal)},
		{"POST /admin/v1/accounts/{id}/contacts", body("invalid_contact", a.addContact)},
		{"PUT /admin/v1/accounts/{id}/goals/{goal_id}", body("invalid_goal", a.putGoal)},
		{"GET /admin/v1/accounts/{id}/leads", listOf(a, (*central.DB).Leads, toLead)},
		{"GET /admin/v1/keys", a.bounded(a.listExpiringKeys)},
		{"GET /admin/v1/keys/{id}", a.getKey},
		{"GET /admin/v1/keys/{id}/usage", a.listKeyUsage},
		{"GET /admin/v1/leads/{id}", get(a, (*central.DB).Lead, toLead)},
		{"DELETE /admin/v1/leads/{id}", noBody(get(a, (*central.DB).DeleteLead, toLead))},
		{"GET /admin/v1/tombstones", list(a, (*central.DB).Tombstones, toTombstone)},
		{"POST /admin/v1/tombstones", body("invalid_tombstone", a.bury)},
		{"GET /admin/v1/quarantine", a.bounded(a.listQuarantine)},
		{"GET /admin/v1/quarantine/{id}", a.readQuarantined},
		{"POST /admin/v1/quarantine/{id}/release", optionalBody("invalid_lead", a.releaseQuarantined)},
		{"DELETE /admin/v1/quarantine/{id}", noBody(a.discardQuarantined)},
	}
}

// webhookRoutes serves subscriptions, and the events and deliveries of webhooks.
func (a *api) webhookRoutes() []route {
	return []route{
		{"GET /admin/v1/accounts/{id}/webhooks", listOf(a, (*central.DB).Subscriptions, a.toWebhook)},
		{"GET /admin/v1/webhooks/{id}", get(a, (*central.DB).Subscription, a.toWebhook)},
		{"POST /admin/v1/webhooks/{id}/revoke", noBody(a.revokeWebhook)},
		{"POST /admin/v1/webhooks/{id}/rotate-secret", optionalBody("invalid_rotation", a.rotateSecret)},
		{"GET /admin/v1/webhooks/{id}/deliveries", a.bounded(a.listDeliveries)},
		{"GET /admin/v1/events/{id}/deliveries", a.bounded(a.listEventDeliveries)},
		{"GET /admin/v1/deliveries", a.bounded(a.listAllDeliveries)},
		{"GET /admin/v1/deliveries/tail", a.tailDeliveries},
		{"GET /admin/v1/accounts/{id}/events", a.streamEvents},
		{"GET /admin/v1/deliveries/{id}", a.getDelivery},
		{"POST /admin/v1/deliveries/{id}/retry", noBody(a.retryDelivery)},
		{"POST /admin/v1/deliveries/recover", body("invalid_recovery", a.recoverDeliveries)},
		{"POST /admin/v1/webhooks/{id}/recover", body("invalid_recovery", a.recoverDeliveries)},
	}
}

// fleetRoutes serves nodes, the NATS servers of regions, what nodes are asked, and releases.
func (a *api) fleetRoutes() []route {
	return []route{
		{"POST /admin/v1/nodes", body("invalid_node", a.enrolNode)},
		{"GET /admin/v1/nodes", a.bounded(a.listNodes)},
		{"POST /admin/v1/nodes/{id}/revoke", noBody(a.revokeNode)},
		{"DELETE /admin/v1/nodes/{id}", noBody(a.revokeNode)},
		{"POST /admin/v1/regions", body("invalid_region", a.enrolRegion)},
		{"GET /admin/v1/regions", a.bounded(a.listRegions)},
		{"POST /admin/v1/regions/{id}/revoke", noBody(a.revokeRegion)},
		{"GET /admin/v1/lockouts", a.listLockouts},
		{"POST /admin/v1/lockouts/clear", body("invalid_lockout", a.clearLockouts)},
		{"GET /admin/v1/requests", a.listAllRequests},
		{"GET /admin/v1/requests/{id}", a.showRequest},
		{"GET /admin/v1/accounts/{id}/requests", a.listAccountRequests},
		{"GET /admin/v1/keys/{id}/requests", a.listKeyRequests},
		{"POST /admin/v1/releases", body("invalid_release", a.createRelease)},
		{"GET /admin/v1/releases", list(a, (*central.DB).Releases, toRelease)},
		{"GET /admin/v1/releases/{id}", get(a, (*central.DB).Release, toRelease)},
		{"POST /admin/v1/releases/{id}/promote", optionalBody("invalid_rollout", a.promoteRelease)},
		{"POST /admin/v1/releases/{id}/rollback", noBody(a.rollbackRelease)},
		{"GET /admin/v1/rollouts", a.bounded(a.listRollouts)},
		{"GET /admin/v1/rollouts/{id}", get(a, (*central.DB).Rollout, a.toRollout)},
	}
}

// operatorRoutes serves tokens, the audit log, and the figures and document of this API.
func (a *api) operatorRoutes() []route {
	return []route{
		{"POST /admin/v1/tokens", body("invalid_token", a.createToken)},
		{"GET /admin/v1/tokens", list(a, (*central.DB).Tokens, toToken)},
		{"POST /admin/v1/tokens/{id}/revoke", revoke(a, (*central.DB).RevokeToken, toToken)},
		{"GET /admin/v1/whoami", a.whoami},
		{"GET /admin/v1/audit", a.bounded(a.listAudit)},
		{"GET /admin/v1/traffic", a.showTraffic},
		{"GET /admin/v1/outcomes", a.bounded(a.showOutcomes)},
		{"GET /admin/v1/openapi.json", a.openAPI},
	}
}

// answer holds the status and body of a request that succeeded.
type answer struct {
	status int
	body   any
}

// ok answers 200 with a body, unless err says why there is none.
func ok(body any, err error) (answer, error) { return answer{http.StatusOK, body}, err }

// created answers 201 with a body, unless err says why there is none.
func created(body any, err error) (answer, error) { return answer{http.StatusCreated, body}, err }

// createdIf answers 201 when something new arose and 200 when not.
func createdIf(arose bool, body any, err error) (answer, error) {
	if arose {
		return created(body, err)
	}
	return ok(body, err)
}

// body serves requests whose body is an In. The validator makes problems of the
// kind.
func body[In any](kind string, serve func(*http.Request, In, *input.Validator) (answer, error)) handler {
	return decoded(false, kind, serve)
}

// optionalBody is body for one that may be left out.
func optionalBody[In any](kind string, serve func(*http.Request, In, *input.Validator) (answer, error)) handler {
	return decoded(true, kind, serve)
}

// noBody serves requests without a body, or with an empty object.
func noBody(serve handler) handler {
	return optionalBody(input.KindBody, func(r *http.Request, _ struct{}, _ *input.Validator) (answer, error) { return serve(r) })
}

func decoded[In any](optional bool, kind string, serve func(*http.Request, In, *input.Validator) (answer, error)) handler {
	return func(r *http.Request) (answer, error) {
		var in In
		if err := input.Decode(r, &in, optional); err != nil {
			return answer{}, err
		}
		return serve(r, in, &input.Validator{Kind: kind})
	}
}

// get serves the record whose id is in the path.
func get[T, V any](a *api, read func(*central.DB, context.Context, string) (T, error), convert func(T) V) handler {
	return func(r *http.Request) (answer, error) {
		record, err := read(a.DB, r.Context(), r.PathValue("id"))
		if err != nil {
			return answer{}, err
		}
		return ok(convert(record), nil)
	}
}

// revoke ends the record whose id is in the path, and answers with it.
func revoke[T, V any](a *api, end func(*central.DB, context.Context, string) (T, bool, error), convert func(T) V) handler {
	return noBody(get(a, func(d *central.DB, ctx context.Context, id string) (T, error) {
		record, _, err := end(d, ctx, id)
		return record, err
	}, convert))
}

// list serves all records of a kind, by pages.
func list[T, V any](a *api, read func(*central.DB, context.Context, store.Page) ([]T, string, error), convert func(T) V) handler {
	return listOf(a, func(d *central.DB, ctx context.Context, _ string, p store.Page) ([]T, string, error) {
		return read(d, ctx, p)
	}, convert)
}

// listOf serves the records of the account whose id is in the path, by pages.
func listOf[T, V any](a *api, read func(*central.DB, context.Context, string, store.Page) ([]T, string, error), convert func(T) V) handler {
	return a.bounded(func(r *http.Request) (answer, error) {
		return page(r, func(p store.Page) ([]T, string, error) {
			return read(a.DB, r.Context(), r.PathValue("id"), p)
		}, convert)
	})
}

// spanOf reads ?since and ?until.
func spanOf(r *http.Request) (s store.Span, err error) {
	query, v := r.URL.Query(), input.Validator{Kind: input.KindParameter}
	for name, into := range map[string]*time.Time{"since": &s.Since, "until": &s.Until} {
		if query.Has(name) {
			*into = v.Time(name, new(query.Get(name)))
		}
	}
	return s, v.Err()
}

// page answers with the page that the request asks for, each record converted.
func page[T, V any](r *http.Request, read func(store.Page) ([]T, string, error), convert func(T) V) (answer, error) {
	wanted, err := pageOf(r)
	if err != nil {
		return answer{}, err
	}
	items, next, err := read(wanted)
	if wanted.Cursor != "" && errors.Is(err, store.ErrInvalid) {
		return answer{}, &input.Problem{Kind: input.KindParameter, Reason: "cursor_invalid", Detail: "cursor must be a next_cursor of this list"}
	}
	all := adminapi.List[V]{Items: make([]V, 0, len(items)), NextCursor: adminapi.Cursor(next)}
	for _, item := range items {
		all.Items = append(all.Items, convert(item))
	}
	return ok(all, err)
}

// pageOf reads ?limit (default 50, held to 1 to 200) and ?cursor.
func pageOf(r *http.Request) (store.Page, error) {
	query := r.URL.Query()
	page := store.Page{Cursor: query.Get("cursor")}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return page, &input.Problem{Kind: input.KindParameter, Reason: "limit_not_integer", Detail: "limit must be an integer"}
		}
		page.Limit = min(max(n, 1), store.MaxPage)
	}
	return page, nil
}

// Package pipeline is the ordered sequence of checks that every partner request
// passes before a handler sees it:
//
//	address locked out? -> bearer token present -> well-formed -> known ->
//	not revoked, expired or past its grace -> address allowed -> rate limit ->
//	route -> scope
//
// The first check that fails answers the request. From the rate limit on, every
// answer carries the rate-limit headers and the environment.
package pipeline

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
	"partneredge/wasm/route"
)

// Host provides what the pipeline needs. Its errors are of type abi.Code.
type Host interface {
	// Lockout returns for how many milliseconds the client is still locked out.
	Lockout(client string) (int64, error)
	// Failure counts a failed authentication and returns what Lockout then would.
	Failure(client string) (int64, error)
	// Key returns the record of a bearer token, abi.CodeNotFound if it is unknown.
	Key(token string) (abi.Key, error)
	// Take spends one token of a key's bucket.
	Take(keyID string, limit int) (abi.Bucket, error)
}

// Pipeline passes requests on by the routes of a release.
type Pipeline struct{ Routes *route.Table }

// Handle answers the request, or sets in resp the handler that is to answer it, the
// parameters of its path, the principal, and the headers that the answer will get.
func (p Pipeline) Handle(req *abi.Request, resp *abi.Response, host Host) {
	if wait, err := host.Lockout(req.Client); err != nil {
		answer.Internal(resp)
		return
	} else if wait > 0 {
		answer.ErrorAfter(resp, 403, "too_many_failed_attempts", "ip_locked_out", wait)
		return
	}
	key, reason, err := authenticate(req, host)
	// A refusal names the key too where there is one, for the node's request log.
	resp.Principal.KeyID, resp.Principal.AccountID = key.ID, key.AccountID
	switch {
	case err != nil:
		answer.Internal(resp)
		return
	case reason != "":
		unauthorized(req, resp, reason, host)
		return
	case !allowed(key.Allowlist, req.Client):
		answer.Error(resp, 403, "forbidden", "ip_not_allowed")
		return
	}
	bucket, err := host.Take(key.ID, key.RateLimit)
	if err != nil {
		answer.Internal(resp)
		return
	}
	limitHeaders(resp, &bucket, key.Environment)
	if !bucket.Allowed {
		answer.ErrorAfter(resp, 429, "rate_limited", "rate_limited", bucket.RetryMS)
		return
	}
	p.route(req, resp, &key)
}

// route passes on the request of a key that may make it.
func (p Pipeline) route(req *abi.Request, resp *abi.Response, key *abi.Key) {
	endpoint, params := p.Routes.Find(req.Path, resp.Params)
	if endpoint == nil {
		answer.Error(resp, 404, "not_found", "")
		return
	}
	to := endpoint.Method(req.Method, params)
	if to == nil {
		answer.Error(resp, 405, "method_not_allowed", "")
		answer.Header(resp, "allow", endpoint.Allow)
		return
	}
	if !to.Allows(key.Scopes, key.Own) {
		answer.Error(resp, 403, "forbidden", "insufficient_scope")
		return
	}
	resp.Handler = to.Handler
	resp.Params = params
	resp.Principal = abi.Principal{
		KeyID: key.ID, AccountID: key.AccountID,
		Environment: key.Environment, Scopes: key.Scopes, Own: key.Own,
	}
}

// unauthorized answers a failed authentication. It counts as a failure unless no
// credential was presented, as by a browser that looks for an icon, or the key was
// valid once: a partner whose key has expired is not an attacker.
func unauthorized(req *abi.Request, resp *abi.Response, reason string, host Host) {
	if reason != missingToken && reason != keyExpired && reason != graceExpired {
		if _, err := host.Failure(req.Client); err != nil {
			answer.Internal(resp)
			return
		}
	}
	answer.Error(resp, 401, "unauthorized", reason)
	answer.Header(resp, "www-authenticate", "Bearer")
}

func limitHeaders(resp *abi.Response, bucket *abi.Bucket, env abi.Environment) {
	answer.Header(resp, "x-ratelimit-limit", resp.Decimal(int64(bucket.Limit)))
	answer.Header(resp, "x-ratelimit-remaining", resp.Decimal(int64(bucket.Remaining)))
	answer.Header(resp, "x-ratelimit-reset-ms", resp.Decimal(bucket.ResetMS))
	answer.Header(resp, "x-svc-environment", string(env))
}

// Package leads accepts leads.
package leads

import (
	"hash/fnv"
	"strconv"
	"strings"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
	"partneredge/wasm/handlers"
	"partneredge/wasm/handlers/jsonbody"
	"partneredge/wasm/typeid"
)

// Handle answers POST /api/v2/public/leads. A live lead is kept before the
// answer. A lead with a test key gets the same answer and is not kept. A request
// with an Idempotency-Key is executed once: for 24 hours the same request gets
// the first answer again.
func Handle(req *abi.Request, resp *abi.Response, outbox handlers.Outbox) {
	key, keys := req.Header("idempotency-key")
	if keys > 1 || keys == 1 && !isIdempotencyKey(key) {
		answer.Error(resp, 400, "invalid_idempotency_key", "")
		return
	}
	o, ok := jsonbody.Object(req.Body)
	if !ok {
		jsonbody.Refuse(resp)
		return
	}
	var lead abi.Lead
	if reason := read(o, &lead); reason != "" {
		answer.Error(resp, 400, "invalid_lead", reason)
		return
	}
	lead.ID = typeid.Make("lead", req.Now/1000, [10]byte(req.Random[:10]))
	lead.Created = req.Now
	sandbox := req.Principal.Environment != abi.EnvLive
	switch {
	case keys == 1:
		kept, err := outbox.LeadOnce(&abi.Once{Key: key, Digest: digest(req.Body), Lead: lead})
		switch {
		case err != nil:
			answer.Internal(resp)
			return
		case kept.Outcome == abi.Conflict:
			answer.Error(resp, 409, "idempotency_conflict", "")
			return
		}
		lead.ID = kept.ID
	case !sandbox:
		if err := outbox.Lead(&lead); err != nil {
			answer.Internal(resp)
			return
		}
	}
	resp.Status = 201
	resp.Body = appendLead(resp.Body[:0], &lead, req.Principal.Environment, sandbox)
}

// isIdempotencyKey reports whether s is 1 to 255 printable ASCII characters.
func isIdempotencyKey(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}

// digest returns a hash that differs for different bodies. It need not be
// cryptographic: a partner who constructs two bodies with the same digest only
// gets the answer to the first of them twice.
func digest(body []byte) string {
	h := fnv.New128a()
	_, _ = h.Write(body) // documented never to fail
	return string(h.Sum(nil))
}

func appendLead(b []byte, lead *abi.Lead, environment abi.Environment, sandbox bool) []byte {
	b = answer.AppendString(append(b, `{"lead":{"id":`...), lead.ID)
	b = answer.AppendOptional(append(b, `,"first_name":`...), lead.FirstName)
	b = answer.AppendOptional(append(b, `,"last_name":`...), lead.LastName)
	b = answer.AppendOptional(append(b, `,"email":`...), lead.Email)
	b = answer.AppendOptional(append(b, `,"phone":`...), lead.Phone)
	b = answer.AppendString(append(b, `,"consent_status":`...), lead.ConsentStatus)
	b = answer.AppendString(append(b, `,"environment":`...), string(environment))
	b = strconv.AppendBool(append(b, `},"sandbox":`...), sandbox)
	return append(b, `,"api_version":"v2"}`...)
}

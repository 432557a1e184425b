// Package leads handles POST /leads: it validates a lead, stores a live one, and echoes it.
package leads

import (
	"strconv"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
	"partneredge/wasm/handlers"
	"partneredge/wasm/handlers/idempotency"
	"partneredge/wasm/handlers/jsonbody"
	"partneredge/wasm/typeid"
)

// Handle answers POST /api/v2/public/leads. A live lead is kept before the
// answer. A lead with a test key gets the same answer and is not kept. A request
// with an Idempotency-Key is executed once: for 24 hours the same request gets
// the first answer again.
func Handle(req *abi.Request, resp *abi.Response, outbox handlers.Outbox) {
	key, ok := idempotency.Key(req, resp)
	if !ok {
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
	case key != "":
		kept, err := outbox.LeadOnce(&abi.Once{Key: key, Digest: idempotency.Digest(req.Body), Lead: lead})
		switch {
		case err != nil:
			answer.Internal(resp)
			return
		case kept.Outcome == abi.Conflict:
			idempotency.Conflict(resp)
			return
		case kept.Outcome == abi.Repeat:
			idempotency.Replayed(resp)
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

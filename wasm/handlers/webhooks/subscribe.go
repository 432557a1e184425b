package webhooks

import (
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
	"partneredge/wasm/handlers"
	"partneredge/wasm/handlers/idempotency"
	"partneredge/wasm/handlers/jsonbody"
	"partneredge/wasm/isotime"
	"partneredge/wasm/targeturl"
	"partneredge/wasm/typeid"
)

const maxDescription = 500 // characters

const signingScheme = "X-Svc-Signature: t=<unix>,v1=<hex>, where v1 is the hex HMAC-SHA256 " +
	"of <t>.<body>, keyed with the text of this secret"

func subscribe(req *abi.Request, resp *abi.Response, subscriptions handlers.Subscriptions) {
	key, ok := idempotency.Key(req, resp)
	if !ok {
		return
	}
	s, ok := readSubscription(req, resp)
	if !ok {
		return
	}
	s.ID, s.Secret = identify(req)
	outcome, reason := abi.New, ""
	var err error
	if key == "" {
		reason, err = subscriptions.Subscribe(&s)
	} else {
		var made abi.Subscribed
		made, err = subscriptions.SubscribeOnce(&abi.SubscribeOnce{Key: key, Digest: idempotency.Digest(req.Body), Subscription: s})
		outcome, reason = made.Outcome, made.Reason
		s.ID, s.Secret, s.Created = made.ID, made.Secret, made.Created
	}
	switch {
	case err == abi.CodeLimit:
		answer.Error(resp, 400, "subscription_limit_reached", "")
	case err != nil:
		answer.Internal(resp)
	case outcome == abi.Conflict:
		idempotency.Conflict(resp)
	case reason != "":
		answer.Error(resp, 400, "invalid_target_url", reason)
	default:
		resp.Status = 201
		if outcome == abi.Repeat {
			idempotency.Replayed(resp)
		}
		resp.Body = appendSubscription(resp.Body[:0], &s, req.Principal.Environment)
	}
}

// readSubscription reads the subscription that a request asks for. Without ok it has answered.
func readSubscription(req *abi.Request, resp *abi.Response) (s abi.Subscription, ok bool) {
	o, ok := jsonbody.Object(req.Body)
	if !ok {
		jsonbody.Refuse(resp)
		return s, false
	}
	target, isText := jsonbody.Text(jsonbody.Member(o, "target_url"))
	_, _, reason := targeturl.Parse(target)
	if !isText {
		reason = targeturl.NotURL
	}
	if reason != "" {
		answer.Error(resp, 400, "invalid_target_url", reason)
		return s, false
	}
	events := knownEvents(jsonbody.Member(o, "events"))
	if len(events) == 0 {
		answer.Error(resp, 400, "no_valid_events", "events_array_empty_or_unknown")
		return s, false
	}
	description, reason := describe(jsonbody.Member(o, "description"))
	if reason != "" {
		answer.Error(resp, 400, "invalid_description", reason)
		return s, false
	}
	return abi.Subscription{
		Target:      target,
		Events:      events,
		Description: description,
		Created:     req.Now,
	}, true
}

// identify generates the id, which is public, and the secret, which must not be
// guessed from it. They need 42 random bytes, and a request brings 32. So these
// seed ChaCha8, and id and secret are different parts of its stream.
func identify(req *abi.Request) (id, secret string) {
	stream := rand.NewChaCha8(req.Random)
	var forID [10]byte
	var key [32]byte
	_, _ = stream.Read(forID[:]) // documented never to fail
	_, _ = stream.Read(key[:])
	return typeid.Make("whs", req.Now/1000, forID), hex.EncodeToString(key[:])
}

// knownEvents returns the known event types in v, each once, in the order given.
func knownEvents(v *fastjson.Value) []string {
	if v == nil || v.Type() != fastjson.TypeArray {
		return nil
	}
	var events []string
	for _, item := range v.GetArray() {
		name, ok := jsonbody.Text(item)
		if ok && slices.Contains(abi.EventTypes[:], name) && !slices.Contains(events, name) {
			events = append(events, name)
		}
	}
	return events
}

// describe returns nil if there is no description. An empty one is kept.
func describe(v *fastjson.Value) (description *string, reason string) {
	if v == nil {
		return nil, ""
	}
	text, ok := jsonbody.Text(v)
	if !ok {
		return nil, "invalid_field_type"
	}
	if utf8.RuneCountInString(text) > maxDescription {
		return nil, "field_too_long"
	}
	return &text, ""
}

func appendSubscription(b []byte, s *abi.Subscription, environment abi.Environment) []byte {
	b = answer.AppendString(append(b, `{"subscription":{"id":`...), s.ID)
	b = answer.AppendString(append(b, `,"target_url":`...), s.Target)
	b = append(b, `,"events":[`...)
	b = answer.AppendList(b, s.Events, func(b []byte, event *string) []byte { return answer.AppendString(b, *event) })
	b = append(b, `],"description":`...)
	if s.Description == nil {
		b = append(b, "null"...)
	} else {
		b = answer.AppendString(b, *s.Description)
	}
	b = answer.AppendString(append(b, `,"environment":`...), string(environment))
	b = isotime.Append(append(b, `,"created_at":"`...), s.Created)
	b = answer.AppendString(append(b, `"},"secret":`...), s.Secret)
	b = answer.AppendString(append(b, `,"signing_scheme":`...), signingScheme)
	return append(b, '}')
}

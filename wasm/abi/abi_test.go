package abi

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// frame is any kind of frame.
type frame interface {
	Append([]byte) []byte
	Parse([]byte) error
}

// onceKey draws idempotency keys.
var onceKey = rapid.StringMatching(`[ -~]{1,255}`)

func text(t *rapid.T, name string) string { return rapid.String().Draw(t, name) }

func list[T any](t *rapid.T, name string, one func() T) []T {
	out := []T{}
	for range rapid.IntRange(0, 4).Draw(t, name) {
		out = append(out, one())
	}
	return out
}

func headers(t *rapid.T) []Header {
	return list(t, "headers", func() Header { return Header{text(t, "name"), text(t, "value")} })
}

func principal(t *rapid.T) Principal {
	return Principal{text(t, "key"), text(t, "account"), Environment(text(t, "environment")), Scopes(rapid.Uint32().Draw(t, "scopes")), text(t, "own")}
}

func params(t *rapid.T) []Param {
	return list(t, "params", func() Param { return Param{text(t, "param"), text(t, "value")} })
}

// kinds draws a frame of each kind, with an empty one to parse it into.
func kinds(t *rapid.T) map[string][2]frame {
	number := func(name string) int64 { return rapid.Int64().Draw(t, name) }
	count := func(name string) int { return int(rapid.Uint32().Draw(t, name)) }
	request := &Request{
		Now: number("now"), Method: text(t, "method"), Path: text(t, "path"), Query: text(t, "query"),
		Client: text(t, "client"), Principal: principal(t), Params: params(t), Headers: headers(t),
		Body: []byte(text(t, "body")),
	}
	copy(request.Random[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "random"))
	subscription := &Subscription{ID: text(t, "id"), Secret: text(t, "secret"), Target: text(t, "target"), Created: number("created"),
		Events: list(t, "events", func() string { return text(t, "event") })}
	if rapid.Bool().Draw(t, "described") {
		s := text(t, "description")
		subscription.Description = &s
	}
	return map[string][2]frame{
		"request": {request, &Request{}},
		"response": {&Response{Status: int(rapid.Uint16().Draw(t, "status")), Headers: headers(t), Body: []byte(text(t, "answer")),
			Handler: text(t, "handler"), Principal: principal(t), Params: params(t)}, &Response{}},
		"key": {&Key{text(t, "id"), text(t, "account"), Environment(text(t, "env")), Scopes(rapid.Uint32().Draw(t, "scopes")), text(t, "own"),
			count("limit"), number("expires"), number("grace"), number("revoked"),
			list(t, "networks", func() string { return text(t, "network") })}, &Key{}},
		"routes":       {&Routes{{text(t, "handler"), text(t, "method"), text(t, "path"), text(t, "scope")}, {}}, &Routes{}},
		"bucket":       {&Bucket{rapid.Bool().Draw(t, "allowed"), count("limit"), count("remaining"), number("reset"), number("retry")}, &Bucket{}},
		"profile":      {&Profile{text(t, "agent"), text(t, "email"), text(t, "name"), number("joined"), text(t, "account"), text(t, "title"), text(t, "mode")}, &Profile{}},
		"subscription": {subscription, &Subscription{}},
		"lead": {&Lead{text(t, "id"), text(t, "first"), text(t, "last"), text(t, "email"), text(t, "phone"), text(t, "status"),
			text(t, "consent"), number("captured"), number("created")}, &Lead{}},
		"once":           {&Once{onceKey.Draw(t, "key"), text(t, "digest"), Lead{ID: text(t, "id"), Phone: text(t, "phone"), Created: number("created")}}, &Once{}},
		"subscribe once": {&SubscribeOnce{onceKey.Draw(t, "key"), text(t, "digest"), *subscription}, &SubscribeOnce{}},
		"subscribed":     {&Subscribed{Outcome(rapid.Byte().Draw(t, "outcome")), number("created"), text(t, "reason"), text(t, "id"), text(t, "secret")}, &Subscribed{}},
		"kept":           {&Kept{Outcome(rapid.Byte().Draw(t, "outcome")), text(t, "id")}, &Kept{}},
		"insights": {&Insights{rapid.Bool().Draw(t, "history"), list(t, "insights", func() Insight {
			return Insight{text(t, "id"), text(t, "headline"), text(t, "detail"), number("created")}
		})}, &Insights{}},
		"firings": {&Firings{rapid.Bool().Draw(t, "more"), list(t, "firings", func() Firing {
			return Firing{text(t, "id"), text(t, "name"), text(t, "action"), number("triggered"), []byte(text(t, "data"))}
		})}, &Firings{}},
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for name, pair := range kinds(t) {
			b := pair[0].Append(nil)
			if err := pair[1].Parse(b); err != nil {
				t.Fatalf("%s: parse what was appended: %v", name, err)
			}
			if again := pair[1].Append(nil); !bytes.Equal(again, b) {
				t.Fatalf("%s: %+v became %+v", name, pair[0], pair[1])
			}
		}
	})
}

// TestOnceKeys: a frame whose idempotency key is none is refused.
func TestOnceKeys(t *testing.T) {
	for key, want := range map[string]error{
		"a": nil, strings.Repeat("~", 255): nil,
		"": ErrFrame, strings.Repeat("~", 256): ErrFrame, "a\n": ErrFrame, "\u00e9": ErrFrame,
	} {
		once, subscribe := Once{Key: key}, SubscribeOnce{Key: key}
		if err := new(Once).Parse(once.Append(nil)); !errors.Is(err, want) {
			t.Errorf("a lead with the key %q: %v", key, err)
		}
		if err := new(SubscribeOnce).Parse(subscribe.Append(nil)); !errors.Is(err, want) {
			t.Errorf("a subscription with the key %q: %v", key, err)
		}
	}
}

// TestCutShort checks that a frame that is too short or too long is refused, and
// never read beyond its end.
func TestCutShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for name, pair := range kinds(t) {
			b := pair[0].Append(nil)
			cut := b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]
			if name == "key" && len(cut) == len(WithoutOwn(b)) {
				continue // all that a frame without own scopes has
			}
			into := reflect.New(reflect.TypeOf(pair[1]).Elem()).Interface().(frame)
			if err := into.Parse(cut); err == nil {
				t.Fatalf("%s: %d of %d bytes were parsed as a whole", name, len(cut), len(b))
			}
			if err := into.Parse(append(b, 0)); err == nil {
				t.Fatalf("%s: a byte after the end was accepted", name)
			}
		}
	})
}

// TestFrameLayout holds the sizes that comments and the modules' README work out.
func TestFrameLayout(t *testing.T) {
	request := Request{Now: 1, Method: "GET", Path: "/x", Client: "::1"}
	response := Response{Status: 200, Body: []byte("{}")}
	if asked, answered := len(request.Append(nil)), len(response.Append(nil)); asked != 92 || answered != 38 {
		t.Errorf("the frames of the worked examples have %d and %d bytes, want 92 and 38", asked, answered)
	}
}

func TestParseCopy(t *testing.T) {
	b := (&Response{Status: 200, Body: []byte("body"), Headers: []Header{{"a", "b"}}}).Append(nil)
	var r Response
	if err := r.ParseCopy(b); err != nil {
		t.Fatal(err)
	}
	clear(b)
	if string(r.Body) != "body" || r.Headers[0] != (Header{"a", "b"}) {
		t.Errorf("got %+v after the frame was cleared", r)
	}
}

// TestDecimalKeepsItsMemory checks that numbers which are longer than those of a
// guest's warm-up need no more memory.
func TestDecimalKeepsItsMemory(t *testing.T) {
	var r Response
	r.Decimal(1)
	room := cap(r.buf)
	r.Reset()
	for _, n := range []int64{math.MaxInt64, math.MinInt64, 60_000, 0} {
		if got := r.Decimal(n); got != strconv.FormatInt(n, 10) {
			t.Errorf("%d is %q", n, got)
		}
	}
	if cap(r.buf) != room {
		t.Errorf("capacity %d became %d", room, cap(r.buf))
	}
}

func TestEveryOpNeedsACapability(t *testing.T) {
	for op := OpLockout; op <= OpSubscribeOnce; op++ {
		if op.Needs() == "" {
			t.Errorf("operation %d needs no capability", op)
		}
	}
	if got := Op(0).Needs(); got != "" {
		t.Errorf("operation 0 needs %q", got)
	}
}

// FuzzParse checks that every kind of frame parses or refuses any bytes, and can
// append what it has parsed.
func FuzzParse(f *testing.F) {
	f.Add((&Request{Method: "GET", Headers: []Header{{"a", "b"}}}).Append(nil))
	f.Add((&Response{Status: 200, Body: []byte("{}")}).Append(nil))
	f.Add((&Key{ID: "key_1", Allowlist: []string{"::/0"}}).Append(nil))
	f.Add((&Insights{Items: []Insight{{ID: "x"}}}).Append(nil))
	f.Add((&Key{ID: "key_1", Own: "x:quotes"}).Append(nil))
	f.Add((&Request{Params: []Param{{"id", "1"}}, Principal: Principal{Own: "x:quotes"}}).Append(nil))
	f.Add((&Routes{{"quotes", "GET", "/api/v2/public/quotes", "x:quotes"}}).Append(nil))
	f.Add([]byte{1, 0, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, into := range []frame{&Request{}, &Response{}, &Key{}, &Bucket{}, &Profile{}, &Insights{}, &Firings{}, &Subscription{}, &Lead{}, &Routes{}} {
			if into.Parse(b) != nil {
				continue
			}
			again := reflect.New(reflect.TypeOf(into).Elem()).Interface().(frame)
			if err := again.Parse(into.Append(nil)); err != nil {
				t.Errorf("%T: what was parsed cannot be appended: %v", into, err)
			}
		}
	})
}

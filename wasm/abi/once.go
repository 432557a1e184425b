package abi

import "strings"

// IsOnceKey reports whether s can be an idempotency key: 1 to 255 printable ASCII
// characters.
func IsOnceKey(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}

// Once is a lead to keep unless one was kept with the same idempotency key of
// the same API key within the last 24 hours. It is kept under an id that the host
// chooses, so that all nodes choose the same one, and not under the Lead's.
//
//	bytes: idempotency key, digest; then the Lead frame
type Once struct {
	Key    string // as IsOnceKey has it
	Digest string // of the request's body; a different one means another request
	Lead   Lead
}

// Append appends the frame to b.
func (o *Once) Append(b []byte) []byte {
	b = appendBytes(b, o.Key)
	b = appendBytes(b, o.Digest)
	return o.Lead.Append(b)
}

// Parse parses a frame into o; strings share the memory of b.
func (o *Once) Parse(b []byte) error {
	d := newReader(b)
	o.Key, o.Digest = d.str(), d.str()
	if !d.ok() || !IsOnceKey(o.Key) {
		return ErrFrame
	}
	return o.Lead.Parse(d.rest())
}

// Outcome is the outcome of a request that is to be done once.
type Outcome uint8

// Outcomes.
const (
	New      Outcome = 1 // the request is done
	Repeat   Outcome = 2 // the same request came before, and is done
	Conflict Outcome = 3 // another request came before with this idempotency key
)

// Kept is the host's answer to a Once.
//
//	u8 outcome; bytes: id
type Kept struct {
	Outcome Outcome
	// ID is that of the kept lead, for a Repeat of the earlier one, and "" for a Conflict.
	// The host chose it: answer with it, not with the id in the Once.
	ID string
}

// Append appends the frame to b.
func (k *Kept) Append(b []byte) []byte {
	return appendBytes(append(b, byte(k.Outcome)), k.ID)
}

// Parse parses a frame into k; its string shares the memory of b.
func (k *Kept) Parse(b []byte) error {
	d := newReader(b)
	k.Outcome = Outcome(d.u8())
	k.ID = d.str()
	return d.end()
}

// SubscribeOnce is a subscription to create unless one was created with the same
// idempotency key of the same API key within the last 24 hours.
//
//	bytes: idempotency key, digest; then the Subscription frame
type SubscribeOnce struct {
	Key          string // as IsOnceKey has it
	Digest       string // of the request's body; a different one means another request
	Subscription Subscription
}

// Append appends the frame to b.
func (o *SubscribeOnce) Append(b []byte) []byte {
	b = appendBytes(b, o.Key)
	b = appendBytes(b, o.Digest)
	return o.Subscription.Append(b)
}

// Parse parses a frame into o; strings share the memory of b.
func (o *SubscribeOnce) Parse(b []byte) error {
	d := newReader(b)
	o.Key, o.Digest = d.str(), d.str()
	if !d.ok() || !IsOnceKey(o.Key) {
		return ErrFrame
	}
	return o.Subscription.Parse(d.rest())
}

// Subscribed is the host's answer to a SubscribeOnce.
//
//	u8 outcome; i64 created; bytes: reason, id, secret
type Subscribed struct {
	Outcome Outcome
	Created int64  // with the next two, of the earlier one for a Repeat; not set for a Conflict
	Reason  string // why the target was refused, "" if it was not
	ID      string
	Secret  string
}

// Append appends the frame to b.
func (s *Subscribed) Append(b []byte) []byte {
	b = appendI64(append(b, byte(s.Outcome)), s.Created)
	b = appendBytes(b, s.Reason)
	b = appendBytes(b, s.ID)
	return appendBytes(b, s.Secret)
}

// Parse parses a frame into s; its strings share the memory of b.
func (s *Subscribed) Parse(b []byte) error {
	d := newReader(b)
	s.Outcome = Outcome(d.u8())
	s.Created = d.i64()
	s.Reason, s.ID, s.Secret = d.str(), d.str(), d.str()
	return d.end()
}

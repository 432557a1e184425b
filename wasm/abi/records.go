package abi

// Key holds what a gate may know of an API key.
//
//	i64 expires, grace until, revoked; u32 rate limit; u32 scopes; u16 number
//	of networks; bytes: id, account id, environment; networks; own scopes,
//	missing if there are none
type Key struct {
	ID          string
	AccountID   string
	Environment Environment
	Scopes      Scopes
	Own         string   // own scopes, see IsOwnScope; "" for none
	RateLimit   int      // requests a minute
	Expires     int64    // hard expiry
	GraceUntil  int64    // end of the grace window after rotation; 0 if not rotated
	Revoked     int64    // manual revocation; 0 if not revoked
	Allowlist   []string // networks in CIDR form; empty: any address
}

const keyHead = 3*8 + 2*4 + 2 // bytes before the first length

// Append appends the key's frame to b.
func (k *Key) Append(b []byte) []byte {
	b = appendI64(b, k.Expires)
	b = appendI64(b, k.GraceUntil)
	b = appendI64(b, k.Revoked)
	b = appendU32(b, uint32(k.RateLimit))
	b = appendU32(b, uint32(k.Scopes))
	b = appendU16(b, uint16(len(k.Allowlist)))
	b = appendBytes(b, k.ID)
	b = appendBytes(b, k.AccountID)
	b = appendBytes(b, string(k.Environment))
	b = appendStrings(b, k.Allowlist)
	if k.Own != "" {
		b = appendBytes(b, k.Own)
	}
	return b
}

// Parse parses a frame into k; strings share the memory of b.
func (k *Key) Parse(b []byte) error {
	if len(b) < keyHead {
		return ErrFrame
	}
	head := (*[keyHead]byte)(b)
	k.Expires, k.GraceUntil, k.Revoked = int64(u64(head[:])), int64(u64(head[8:])), int64(u64(head[16:]))
	k.RateLimit = int(u32(head[24:]))
	k.Scopes = Scopes(u32(head[28:]))
	networks := int(u16(head[32:]))
	d := reader{b, keyHead}
	k.ID = d.str()
	k.AccountID = d.str()
	k.Environment = Environment(d.str())
	k.Allowlist = k.Allowlist[:0]
	if networks > 0 {
		k.Allowlist = d.strings(networks, k.Allowlist)
	}
	k.Own = ""
	if d.at < len(d.b) {
		k.Own = d.str()
	}
	return d.end()
}

// WithoutOwn returns the part of a Key frame that a gate which knows of no own scopes
// can parse: all but those. A malformed frame is returned as it is.
func WithoutOwn(frame []byte) []byte {
	d := newReader(frame)
	d.next(keyHead - 2)
	for n := 3 + int(d.u16()); n > 0 && d.ok(); n-- {
		d.bytes()
	}
	if !d.ok() {
		return frame
	}
	return frame[:d.at]
}

// Bucket is the state of a key's rate limit after a token was asked for.
//
//	u8 allowed; u32 limit, remaining; i64 reset, retry (both milliseconds)
type Bucket struct {
	Allowed   bool
	Limit     int   // requests a minute, the bucket's size
	Remaining int   // whole tokens left
	ResetMS   int64 // until the bucket is full again
	RetryMS   int64 // until there is a token; 0 if allowed
}

const bucketSize = 1 + 2*4 + 2*8 // bytes of the frame

// Append appends the bucket's frame to b.
func (k *Bucket) Append(b []byte) []byte {
	b = appendBool(b, k.Allowed)
	b = appendU32(b, uint32(k.Limit))
	b = appendU32(b, uint32(k.Remaining))
	b = appendI64(b, k.ResetMS)
	return appendI64(b, k.RetryMS)
}

// Parse parses a frame into k.
func (k *Bucket) Parse(b []byte) error {
	if len(b) != bucketSize {
		return ErrFrame
	}
	f := (*[bucketSize]byte)(b)
	k.Allowed = f[0] == 1
	k.Limit, k.Remaining = int(u32(f[1:])), int(u32(f[5:]))
	k.ResetMS, k.RetryMS = int64(u64(f[9:])), int64(u64(f[17:]))
	return nil
}

// Profile describes the account that owns a key, and its agent.
//
//	i64 joined; bytes: agent id, email, full name, account id, name, mode
type Profile struct {
	AgentID, Email, FullName     string
	Joined                       int64
	AccountID, AccountName, Mode string
}

// Append appends the profile's frame to b.
func (p *Profile) Append(b []byte) []byte {
	b = appendI64(b, p.Joined)
	for _, s := range [...]string{p.AgentID, p.Email, p.FullName, p.AccountID, p.AccountName, p.Mode} {
		b = appendBytes(b, s)
	}
	return b
}

// Parse parses a frame into p; strings share the memory of b.
func (p *Profile) Parse(b []byte) error {
	d := newReader(b)
	p.Joined = d.i64()
	p.AgentID, p.Email, p.FullName = d.str(), d.str(), d.str()
	p.AccountID, p.AccountName, p.Mode = d.str(), d.str(), d.str()
	return d.end()
}

// Insight is a coaching insight.
//
//	i64 created; bytes: id, headline, detail, all UTF-8
type Insight struct {
	ID, Headline, Detail string
	Created              int64
}

// Insights is a list of insights.
//
//	u8 history; u32 count; each insight
type Insights struct {
	History bool // the account has coaching history of its own
	Items   []Insight
}

// Append appends the list's frame to b.
func (l *Insights) Append(b []byte) []byte {
	b = appendBool(b, l.History)
	b = appendU32(b, uint32(len(l.Items)))
	for i := range l.Items {
		it := &l.Items[i]
		b = appendI64(b, it.Created)
		b = appendBytes(b, it.ID)
		b = appendBytes(b, it.Headline)
		b = appendBytes(b, it.Detail)
	}
	return b
}

// Parse parses a frame into l; strings share the memory of b.
func (l *Insights) Parse(b []byte) error {
	d := newReader(b)
	l.History = d.bool()
	n := int(d.u32())
	l.Items = l.Items[:0]
	for i := 0; i < n && d.ok(); i++ {
		l.Items = append(l.Items, Insight{Created: d.i64(), ID: d.str(), Headline: d.str(), Detail: d.str()})
	}
	return d.end()
}

// Firing is a firing of a sentinel.
//
//	i64 triggered; bytes: id, name, action, all UTF-8, data
type Firing struct {
	ID, Name, Action string
	Triggered        int64
	Data             []byte // a JSON object
}

// Firings is a list of firings.
//
//	u8 more; u32 count; each firing
type Firings struct {
	More  bool // there are older ones than the last
	Items []Firing
}

// Append appends the list's frame to b.
func (l *Firings) Append(b []byte) []byte {
	b = appendBool(b, l.More)
	b = appendU32(b, uint32(len(l.Items)))
	for i := range l.Items {
		it := &l.Items[i]
		b = appendI64(b, it.Triggered)
		b = appendBytes(b, it.ID)
		b = appendBytes(b, it.Name)
		b = appendBytes(b, it.Action)
		b = appendBytes(b, it.Data)
	}
	return b
}

// Parse parses a frame into l; strings and data share the memory of b.
func (l *Firings) Parse(b []byte) error {
	d := newReader(b)
	l.More = d.bool()
	n := int(d.u32())
	l.Items = l.Items[:0]
	for i := 0; i < n && d.ok(); i++ {
		l.Items = append(l.Items, Firing{Triggered: d.i64(), ID: d.str(), Name: d.str(), Action: d.str(), Data: d.bytes()})
	}
	return d.end()
}

// Subscription is a webhook subscription to be created. Its account and
// environment are those of the principal.
//
//	i64 created; u8 1 if it has a description; u16 number of events;
//	bytes: id, secret, target, description; events
type Subscription struct {
	ID, Secret, Target string
	Description        *string // nil: none given
	Events             []string
	Created            int64
}

// Append appends the subscription's frame to b.
func (s *Subscription) Append(b []byte) []byte {
	description := ""
	if s.Description != nil {
		description = *s.Description
	}
	b = appendI64(b, s.Created)
	b = appendBool(b, s.Description != nil)
	b = appendU16(b, uint16(len(s.Events)))
	b = appendBytes(b, s.ID)
	b = appendBytes(b, s.Secret)
	b = appendBytes(b, s.Target)
	b = appendBytes(b, description)
	return appendStrings(b, s.Events)
}

// Parse parses a frame into s; strings share the memory of b.
func (s *Subscription) Parse(b []byte) error {
	d := newReader(b)
	s.Created = d.i64()
	described := d.bool()
	events := int(d.u16())
	s.ID, s.Secret, s.Target = d.str(), d.str(), d.str()
	description := d.str()
	s.Description = nil
	if described {
		s.Description = &description
	}
	s.Events = d.strings(events, s.Events)
	return d.end()
}

// Lead is a lead to be kept. Its account and environment are those of the
// principal.
//
//	i64 created, captured; bytes: id, first name, last name, email, phone,
//	consent status, consent text
type Lead struct {
	ID                         string
	FirstName, LastName        string // "" if absent
	Email, Phone               string // "" if absent
	ConsentStatus, ConsentText string
	Captured                   int64 // when consent was captured; 0 if not given
	Created                    int64
}

// Append appends the lead's frame to b.
func (l *Lead) Append(b []byte) []byte {
	b = appendI64(b, l.Created)
	b = appendI64(b, l.Captured)
	for _, s := range [...]string{l.ID, l.FirstName, l.LastName, l.Email, l.Phone, l.ConsentStatus, l.ConsentText} {
		b = appendBytes(b, s)
	}
	return b
}

// Parse parses a frame into l; strings share the memory of b.
func (l *Lead) Parse(b []byte) error {
	d := newReader(b)
	l.Created, l.Captured = d.i64(), d.i64()
	l.ID, l.FirstName, l.LastName = d.str(), d.str(), d.str()
	l.Email, l.Phone = d.str(), d.str()
	l.ConsentStatus, l.ConsentText = d.str(), d.str()
	return d.end()
}

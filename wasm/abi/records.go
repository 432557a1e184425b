package abi

// Key is what a gate may know of an API key.
//
//	i64 expires, grace until, revoked; u32 rate limit; u32 scopes; u16 number
//	of networks; bytes: id, account id, environment; networks
type Key struct {
	ID          string
	AccountID   string
	Environment Environment
	Scopes      Scopes
	RateLimit   int      // requests a minute
	Expires     int64    // hard expiry
	GraceUntil  int64    // end of the grace window after rotation; 0 when not rotated
	Revoked     int64    // manual revocation; 0 when not revoked
	Allowlist   []string // networks in CIDR form; empty: any address
}

// Append adds the key's frame to b.
func (k *Key) Append(b []byte) []byte {
	b = appendTime(b, k.Expires)
	b = appendTime(b, k.GraceUntil)
	b = appendTime(b, k.Revoked)
	b = appendU32(b, uint32(k.RateLimit))
	b = appendU32(b, uint32(k.Scopes))
	b = appendU16(b, uint16(len(k.Allowlist)))
	b = appendBytes(b, k.ID)
	b = appendBytes(b, k.AccountID)
	b = appendBytes(b, string(k.Environment))
	for _, n := range k.Allowlist {
		b = appendBytes(b, n)
	}
	return b
}

// Parse reads a frame into k; strings share b's bytes.
func (k *Key) Parse(b []byte) error {
	d := newReader(b)
	k.Expires, k.GraceUntil, k.Revoked = d.i64(), d.i64(), d.i64()
	k.RateLimit = int(d.u32())
	k.Scopes = Scopes(d.u32())
	n := int(d.u16())
	k.ID = d.str()
	k.AccountID = d.str()
	k.Environment = Environment(d.str())
	k.Allowlist = k.Allowlist[:0]
	for i := 0; i < n && d.ok; i++ {
		k.Allowlist = append(k.Allowlist, d.str())
	}
	return d.end()
}

// Bucket is the state of a key's rate limit after a take.
//
//	u8 allowed; u32 limit, remaining; i64 reset, retry (both milliseconds)
type Bucket struct {
	Allowed   bool
	Limit     int   // requests a minute, the bucket's size
	Remaining int   // whole tokens left
	ResetMS   int64 // until the bucket is full again
	RetryMS   int64 // until one token is there; 0 when allowed
}

// Append adds the bucket's frame to b.
func (k *Bucket) Append(b []byte) []byte {
	var allowed byte
	if k.Allowed {
		allowed = 1
	}
	b = append(b, allowed)
	b = appendU32(b, uint32(k.Limit))
	b = appendU32(b, uint32(k.Remaining))
	b = appendTime(b, k.ResetMS)
	return appendTime(b, k.RetryMS)
}

// Parse reads a frame into k.
func (k *Bucket) Parse(b []byte) error {
	d := newReader(b)
	k.Allowed = d.u8() == 1
	k.Limit, k.Remaining = int(d.u32()), int(d.u32())
	k.ResetMS, k.RetryMS = d.i64(), d.i64()
	return d.end()
}

// Profile is the agent and the account that own a key.
//
//	i64 joined; bytes: agent id, email, full name, account id, name, mode
type Profile struct {
	AgentID, Email, FullName     string
	Joined                       int64
	AccountID, AccountName, Mode string
}

// Append adds the profile's frame to b.
func (p *Profile) Append(b []byte) []byte {
	b = appendTime(b, p.Joined)
	for _, s := range [...]string{p.AgentID, p.Email, p.FullName, p.AccountID, p.AccountName, p.Mode} {
		b = appendBytes(b, s)
	}
	return b
}

// Parse reads a frame into p; strings share b's bytes.
func (p *Profile) Parse(b []byte) error {
	d := newReader(b)
	p.Joined = d.i64()
	p.AgentID, p.Email, p.FullName = d.str(), d.str(), d.str()
	p.AccountID, p.AccountName, p.Mode = d.str(), d.str(), d.str()
	return d.end()
}

// Insight is one coaching insight.
//
//	i64 created; bytes: id, headline, detail
type Insight struct {
	ID, Headline, Detail string
	Created              int64
}

// Firing is one firing of a sentinel. Data is a JSON object.
//
//	i64 triggered; bytes: id, name, action, data
type Firing struct {
	ID, Name, Action string
	Triggered        int64
	Data             []byte
}

// Insights reads and writes a list frame: u32 count, then each insight. The
// host answers OpInsights with a u8 in front: 1 when the account has any real
// coaching history, 0 when it has none.
type Insights struct {
	History bool
	Items   []Insight
}

// Append adds the list's frame to b.
func (l *Insights) Append(b []byte) []byte {
	var history byte
	if l.History {
		history = 1
	}
	b = append(b, history)
	b = appendU32(b, uint32(len(l.Items)))
	for i := range l.Items {
		it := &l.Items[i]
		b = appendTime(b, it.Created)
		b = appendBytes(b, it.ID)
		b = appendBytes(b, it.Headline)
		b = appendBytes(b, it.Detail)
	}
	return b
}

// Parse reads a frame into l; strings share b's bytes.
func (l *Insights) Parse(b []byte) error {
	d := newReader(b)
	l.History = d.u8() == 1
	n := int(d.u32())
	l.Items = l.Items[:0]
	for i := 0; i < n && d.ok; i++ {
		l.Items = append(l.Items, Insight{Created: d.i64(), ID: d.str(), Headline: d.str(), Detail: d.str()})
	}
	return d.end()
}

// Firings reads and writes a list frame: u8, 1 when there are more beyond the
// last one; u32 count; each firing.
type Firings struct {
	More  bool
	Items []Firing
}

// Append adds the list's frame to b.
func (l *Firings) Append(b []byte) []byte {
	var more byte
	if l.More {
		more = 1
	}
	b = append(b, more)
	b = appendU32(b, uint32(len(l.Items)))
	for i := range l.Items {
		it := &l.Items[i]
		b = appendTime(b, it.Triggered)
		b = appendBytes(b, it.ID)
		b = appendBytes(b, it.Name)
		b = appendBytes(b, it.Action)
		b = appendBytes(b, it.Data)
	}
	return b
}

// Parse reads a frame into l; strings and data share b's bytes.
func (l *Firings) Parse(b []byte) error {
	d := newReader(b)
	l.More = d.u8() == 1
	n := int(d.u32())
	l.Items = l.Items[:0]
	for i := 0; i < n && d.ok; i++ {
		l.Items = append(l.Items, Firing{Triggered: d.i64(), ID: d.str(), Name: d.str(), Action: d.str(), Data: d.bytes()})
	}
	return d.end()
}

// Subscription is a webhook subscription to be made. Account and environment
// are the principal's.
//
//	i64 created; u8 1 when a description is there; u16 number of events;
//	bytes: id, secret, target, description; events
type Subscription struct {
	ID, Secret, Target string
	Description        *string // nil: none given
	Events             []string
	Created            int64
}

// Append adds the subscription's frame to b.
func (s *Subscription) Append(b []byte) []byte {
	b = appendTime(b, s.Created)
	description := ""
	if s.Description != nil {
		description = *s.Description
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = appendU16(b, uint16(len(s.Events)))
	b = appendBytes(b, s.ID)
	b = appendBytes(b, s.Secret)
	b = appendBytes(b, s.Target)
	b = appendBytes(b, description)
	for _, e := range s.Events {
		b = appendBytes(b, e)
	}
	return b
}

// Parse reads a frame into s; strings share b's bytes.
func (s *Subscription) Parse(b []byte) error {
	d := newReader(b)
	s.Created = d.i64()
	described := d.u8() == 1
	n := int(d.u16())
	s.ID, s.Secret, s.Target = d.str(), d.str(), d.str()
	description := d.str()
	s.Description = nil
	if described {
		s.Description = &description
	}
	s.Events = s.Events[:0]
	for i := 0; i < n && d.ok; i++ {
		s.Events = append(s.Events, d.str())
	}
	return d.end()
}

// Lead is a lead to be kept. Account and environment are the principal's.
//
//	i64 created, captured; bytes: id, first name, last name, email, phone,
//	consent status, consent text
type Lead struct {
	ID                         string
	FirstName, LastName        string // "" where there is none
	Email, Phone               string // "" where there is none
	ConsentStatus, ConsentText string
	Captured                   int64 // when consent was captured, 0 where not told
	Created                    int64
}

// Append adds the lead's frame to b.
func (l *Lead) Append(b []byte) []byte {
	b = appendTime(b, l.Created)
	b = appendTime(b, l.Captured)
	for _, s := range [...]string{l.ID, l.FirstName, l.LastName, l.Email, l.Phone, l.ConsentStatus, l.ConsentText} {
		b = appendBytes(b, s)
	}
	return b
}

// Parse reads a frame into l; strings share b's bytes.
func (l *Lead) Parse(b []byte) error {
	d := newReader(b)
	l.Created, l.Captured = d.i64(), d.i64()
	l.ID, l.FirstName, l.LastName = d.str(), d.str(), d.str()
	l.Email, l.Phone = d.str(), d.str()
	l.ConsentStatus, l.ConsentText = d.str(), d.str()
	return d.end()
}

package abi

// Once is a lead to keep unless one was kept with the same idempotency key of
// the same API key within the last 24 hours.
//
//	bytes: idempotency key, digest; then the Lead frame
type Once struct {
	Key    string // 1 to 255 printable ASCII characters
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
	if !d.ok {
		return ErrFrame
	}
	return o.Lead.Parse(d.b)
}

// Outcome is the outcome of a lead that is to be kept once.
type Outcome uint8

// Outcomes.
const (
	New      Outcome = 1 // the lead is kept
	Repeat   Outcome = 2 // the same request came before, and its lead is kept
	Conflict Outcome = 3 // another request came before with this idempotency key
)

// Kept is the host's answer to a Once.
//
//	u8 outcome; bytes: id
type Kept struct {
	Outcome Outcome
	ID      string // of the kept lead, which for a Repeat is the earlier one; "" for a Conflict
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

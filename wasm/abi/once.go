package abi

// Once is a lead to be kept unless one was kept under the same idempotency key
// of the same API key within the last 24 hours.
//
//	bytes: idempotency key, digest; then the Lead frame
type Once struct {
	Key    string // 1 to 255 printable ASCII characters
	Digest string // of the request's body: what tells a repeat from another request
	Lead   Lead
}

// Append adds the frame to b.
func (o *Once) Append(b []byte) []byte {
	b = appendBytes(b, o.Key)
	b = appendBytes(b, o.Digest)
	return o.Lead.Append(b)
}

// Parse reads a frame into o; strings share b's bytes.
func (o *Once) Parse(b []byte) error {
	d := newReader(b)
	o.Key, o.Digest = d.str(), d.str()
	if !d.ok {
		return ErrFrame
	}
	return o.Lead.Parse(d.b)
}

// Outcome is what became of a lead that is to be kept once.
type Outcome uint8

// Outcomes.
const (
	New      Outcome = 1 // it is kept
	Repeat   Outcome = 2 // the same request came before: that lead is kept
	Conflict Outcome = 3 // another request came before with this idempotency key
)

// Kept says what became of a lead.
//
//	u8 outcome; bytes: id
type Kept struct {
	Outcome Outcome
	ID      string // the lead's, which need not be the proposed one; "" in a conflict
}

// Append adds the frame to b.
func (k *Kept) Append(b []byte) []byte {
	return appendBytes(append(b, byte(k.Outcome)), k.ID)
}

// Parse reads a frame into k; its string shares b's bytes.
func (k *Kept) Parse(b []byte) error {
	d := newReader(b)
	k.Outcome = Outcome(d.u8())
	k.ID = d.str()
	return d.end()
}

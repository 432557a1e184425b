package guest

import (
	"encoding/binary"

	"partneredge/wasm/abi"
)

// Host calls the host of the module. Each method runs one operation of package
// abi and needs the capability that is named there.
type Host struct{}

// Lockout implements pipeline.Host.
func (Host) Lockout(client string) (int64, error) {
	return number(state.host.call(abi.OpLockout, text(client)))
}

// Failure implements pipeline.Host.
func (Host) Failure(client string) (int64, error) {
	return number(state.host.call(abi.OpFailure, text(client)))
}

func number(frame []byte, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	if len(frame) != 8 {
		return 0, abi.CodeFailed
	}
	return int64(binary.LittleEndian.Uint64(frame)), nil
}

// Routes returns the routes of the release. A gate asks while its image is made: then
// no request pays for it.
func (Host) Routes() (routes abi.Routes, err error) {
	frame, err := state.host.call(abi.OpRoutes, nil)
	err = callError(err, routes.Parse(frame))
	return routes, err
}

// Key implements pipeline.Host.
func (Host) Key(token string) (key abi.Key, err error) {
	frame, err := state.host.call(abi.OpKeyScopes, text(token))
	err = callError(err, key.Parse(frame))
	return key, err
}

// Take implements pipeline.Host.
func (Host) Take(keyID string, limit int) (bucket abi.Bucket, err error) {
	frame := binary.LittleEndian.AppendUint32(frames, uint32(limit))
	frame, err = state.host.call(abi.OpTake, append(frame, keyID...))
	err = callError(err, bucket.Parse(frame))
	return bucket, err
}

// Profile implements handlers.Views.
func (Host) Profile() (p abi.Profile, err error) {
	frame, err := state.host.call(abi.OpProfile, nil)
	err = callError(err, p.Parse(frame))
	return p, err
}

// Insights implements handlers.Views.
func (Host) Insights(since int64, limit int, into *abi.Insights) error {
	frame, err := state.host.call(abi.OpInsights, window(since, limit))
	return callError(err, into.Parse(frame))
}

// Firings implements handlers.Views.
func (Host) Firings(before int64, limit int, into *abi.Firings) error {
	frame, err := state.host.call(abi.OpFirings, window(before, limit))
	return callError(err, into.Parse(frame))
}

// Subscribe implements handlers.Subscriptions.
func (Host) Subscribe(s *abi.Subscription) (reason string, err error) {
	frame, err := state.host.call(abi.OpSubscribe, s.Append(frames))
	return string(frame), err
}

// SubscribeOnce implements handlers.Subscriptions.
func (Host) SubscribeOnce(o *abi.SubscribeOnce) (s abi.Subscribed, err error) {
	frame, err := state.host.call(abi.OpSubscribeOnce, o.Append(frames))
	err = callError(err, s.Parse(frame))
	return s, err
}

// Revoke implements handlers.Subscriptions.
func (Host) Revoke(id string) (already bool, err error) {
	frame, err := state.host.call(abi.OpRevoke, text(id))
	if err == nil && len(frame) != 1 {
		err = abi.CodeFailed
	}
	return err == nil && frame[0] == 1, err
}

// Lead implements handlers.Outbox.
func (Host) Lead(l *abi.Lead) error {
	_, err := state.host.call(abi.OpLead, l.Append(frames))
	return err
}

// LeadOnce implements handlers.Outbox.
func (Host) LeadOnce(o *abi.Once) (kept abi.Kept, err error) {
	frame, err := state.host.call(abi.OpLeadOnce, o.Append(frames))
	err = callError(err, kept.Parse(frame))
	return kept, err
}

func window(edge int64, limit int) []byte {
	frame := binary.LittleEndian.AppendUint64(frames, uint64(edge))
	return binary.LittleEndian.AppendUint32(frame, uint32(limit))
}

// callError returns the error of a call whose result was then parsed. A malformed
// result is a failure of the host. Each method parses its own result: through an
// interface the result would be allocated on the heap.
func callError(call, parse error) error {
	if call == nil && parse != nil {
		return abi.CodeFailed
	}
	return call
}

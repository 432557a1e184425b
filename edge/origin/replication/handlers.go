package replication

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/idempotency"
	"partneredge/store/grant"
	"partneredge/store/ratelimit"
)

func (r *requests) key(ctx context.Context, _ string, req wire.KeyRequest) (wire.Message, error) {
	reply := new(wire.KeyReply)
	if len(req.More) > 0 {
		if len(req.More) > wire.MaxMoreKeys {
			return reply, fmt.Errorf("%w: %d keys beside the first, more than %d", store.ErrInvalid, len(req.More), wire.MaxMoreKeys)
		}
		found, err := r.keysOf(ctx, slices.Insert(req.More, 0, req.Hash), req.Partial)
		reply.Keys, reply.Unread, reply.Seq = found.keys, found.unread, found.seq
		return reply, err
	}
	if len(req.Hash) != len(store.Key{}.Hash) {
		return reply, fmt.Errorf("%w: a hash of %d bytes", store.ErrInvalid, len(req.Hash))
	}
	key, seq, err := r.DB.KeyByHash(ctx, [32]byte(req.Hash))
	reply.Seq = seq
	if err == nil {
		if reply.Key = forNode(key); req.Bare {
			reply.Key.Hash = [32]byte{}
		}
	}
	return reply, err
}

// forNode returns a key without what is for operators.
func forNode(k store.Key) *store.Key {
	k.Label, k.SuccessorID = "", ""
	return &k
}

// keys answers what a node holds and cannot know to be current.
func (r *requests) keys(ctx context.Context, _ string, req wire.KeysRequest) (wire.Message, error) {
	reply := new(wire.KeysReply)
	if len(req.Hashes) > wire.MaxRefill {
		return reply, fmt.Errorf("%w: %d keys, more than %d", store.ErrInvalid, len(req.Hashes), wire.MaxRefill)
	}
	found, err := r.keysOf(ctx, req.Hashes, req.Partial)
	reply.Keys, reply.Unread, reply.Seq = found.keys, found.unread, found.seq
	return reply, err
}

// keysFound is an answer for several keys, in the order of their hashes.
type keysFound struct {
	keys   []*store.Key // nil in the place of one that there is not, or that is unread
	unread []int        // places of keys whose rows are damaged
	seq    int64        // the last change that all of them include
}

// keysOf returns the keys with these hashes. A damaged row is an error unless the answer
// may be partial.
func (r *requests) keysOf(ctx context.Context, hashes [][]byte, partial bool) (keysFound, error) {
	for _, hash := range hashes {
		if len(hash) != len(store.Key{}.Hash) {
			return keysFound{}, fmt.Errorf("%w: a hash of %d bytes", store.ErrInvalid, len(hash))
		}
	}
	read, err := r.DB.KeysByHash(ctx, hashes)
	if err != nil {
		return keysFound{}, err
	}
	found := keysFound{keys: make([]*store.Key, len(hashes)), seq: read.Seq}
	for i, hash := range hashes {
		if key, ok := read.Found[[32]byte(hash)]; ok {
			found.keys[i] = forNode(key)
			found.keys[i].Hash = [32]byte{}
		} else if damaged, ok := read.Unread[[32]byte(hash)]; ok {
			if !partial {
				return keysFound{}, damaged
			}
			r.noteUnread(damaged)
			found.unread = append(found.unread, i)
		}
	}
	return found, nil
}

// noteUnread counts that a key was asked for whose row is damaged, and logs it at a limited
// rate: whoever has the key can bring it about as often as they like.
func (r *requests) noteUnread(key central.UnreadKeyError) {
	r.ObserveUnread()
	r.limited.Error("unread "+key.ID, "a key cannot be read, and its partner gets failures", "key", key.ID, "err", key.Why)
}

// scopeOf returns the scope that a view needs, "" of what is no view.
func scopeOf(kind store.ChangeKind) string {
	switch kind {
	case store.ChangeProfile:
		return store.ScopeReadAgent
	case store.ChangeInsights:
		return store.ScopeReadCoaching
	case store.ChangeFirings:
		return store.ScopeReadSentinels
	}
	return ""
}

// granted refuses what the key of a claim does not grant now. A node that
// predates the hashes of keys is believed without one.
func (r *requests) granted(ctx context.Context, node string, c grant.Claim) error {
	if len(c.KeyHash) == 0 {
		if r.presence.vouched(node) {
			return nil
		}
		return grant.NoHash
	}
	if len(c.KeyHash) != len(store.Key{}.Hash) {
		return fmt.Errorf("%w: a hash of %d bytes", store.ErrInvalid, len(c.KeyHash))
	}
	key, _, err := r.DB.KeyByHash(ctx, [32]byte(c.KeyHash))
	if errors.Is(err, store.ErrNotFound) {
		return grant.UnknownKey
	}
	if err != nil {
		return err
	}
	return grant.Judge(key, c, r.DB.Now())
}

func (r *requests) view(ctx context.Context, node string, req wire.ViewRequest) (wire.Message, error) {
	reply := new(wire.ViewReply)
	scope := scopeOf(req.Kind)
	if scope == "" {
		return reply, fmt.Errorf("%w: a view of kind %q", store.ErrInvalid, req.Kind)
	}
	err := r.granted(ctx, node, grant.Claim{KeyHash: req.KeyHash, AccountID: req.AccountID, Scope: scope})
	if err != nil {
		return reply, err
	}
	switch req.Kind {
	case store.ChangeProfile:
		var account store.Account
		account, reply.Seq, err = r.DB.Profile(ctx, req.AccountID)
		if err == nil {
			reply.Account = &account
		}
	case store.ChangeInsights:
		var view central.InsightsView
		view, err = r.DB.Insights(ctx, req.AccountID, req.Since, within(req.Limit, wire.MaxInsights))
		reply.Insights, reply.History, reply.Seq = view.Items, view.History, view.Seq
	case store.ChangeFirings:
		var view central.FiringsView
		view, err = r.DB.Firings(ctx, req.AccountID, req.Before, within(req.Limit, wire.MaxFirings))
		reply.Firings, reply.More, reply.Seq = view.Items, view.More, view.Seq
	}
	return reply, err
}

// within returns limit, or most when limit asks for that or more, or for nothing.
func within(limit, most int) int {
	if limit <= 0 || limit > most {
		return most
	}
	return limit
}

func (r *requests) changes(ctx context.Context, _ string, req wire.ChangesRequest) (wire.Message, error) {
	limit := req.Limit
	if limit == 0 {
		limit = 1000
	}
	log, err := r.DB.ChangesSince(ctx, central.Position{History: req.History, Seq: req.Since}, within(limit, wire.MaxChanges))
	return &wire.ChangesReply{Changes: log.Changes, Latest: log.Latest, History: log.History, Reset: log.Reset}, err
}

// leads commits what it can, and quarantines what it refuses.
func (r *requests) leads(ctx context.Context, node string, req wire.LeadsRequest) (wire.Message, error) {
	reply := new(wire.LeadsReply)
	if n := len(req.Leads) + len(req.Raw); n > leadsPerRequest {
		return reply, fmt.Errorf("%w: %d leads, more than %d", store.ErrInvalid, n, leadsPerRequest)
	}
	var offered []central.OfferedLead
	for _, body := range req.Leads {
		offered = append(offered, central.ReadLead("", body))
	}
	for _, raw := range req.Raw {
		offered = append(offered, central.ReadLead(raw.ID, raw.Body))
	}
	vouched := r.presence.vouched(node)
	for i, l := range offered {
		offered[i].Vouched = vouched && len(l.KeyHash) == 0
	}
	done, err := r.DB.AddLeads(ctx, node, offered)
	if err != nil {
		return reply, err
	}
	for reason, times := range done.Refusals {
		r.ObserveRefusal(node, string(reason), times)
	}
	reply.Committed = slices.AppendSeq(done.Committed, maps.Keys(done.Quarantined))
	reply.Rejected = done.Rejected
	if quarantined, rejected := len(done.Quarantined), len(done.Rejected); quarantined+rejected > 0 {
		r.ObserveRefused(quarantined, rejected)
		r.Log.Warn("leads refused: they wait in the quarantine, or were left at their node", "node", node, "quarantined", quarantined, "left_at_node", rejected)
	}
	return reply, nil
}

// maxEvents bounds the events of a subscription, of which newer nodes may know more.
const maxEvents = 256

// subscribe judges the target again at the origin, which is where deliveries
// start from, and the key that the node names. The lookup of the
// target's name, which may be slow, holds no slot.
func (r *requests) subscribe(ctx context.Context, node string, req wire.SubscribeRequest) (wire.Message, error) {
	reply := new(wire.SubscribeReply)
	s := req.Subscription
	if len(s.Events) > maxEvents { // an empty one takes five times its bytes while the request waits
		return reply, fmt.Errorf("%w: %d events, more than %d", store.ErrInvalid, len(s.Events), maxEvents)
	}
	if req.WithinMS > 0 {
		within, cancel := context.WithTimeout(ctx, time.Duration(req.WithinMS)*time.Millisecond)
		defer cancel()
		ctx = within
	}
	var once *idempotency.Request
	if req.Once != nil {
		once = &idempotency.Request{Key: req.Once.Name, Digest: req.Once.Digest}
	}
	var kept store.Subscription
	err := r.slots.run(ctx, node, 0, func() (err error) {
		if err = r.validate(ctx, node, req); err == nil && once != nil {
			kept, err = r.DB.RepeatedSubscription(ctx, s, once)
		}
		return err
	})
	if err != nil || once != nil && once.Repeated {
		return subscribed(once, kept, err)
	}
	err = r.names.run(ctx, s.AccountID, 0, func() (err error) {
		reply.Reason, err = r.Guard.Check(ctx, s.TargetURL)
		return err
	})
	if err != nil || reply.Reason != "" {
		return reply, err
	}
	err = r.slots.run(ctx, node, 0, func() (err error) {
		kept, err = r.DB.Subscribe(ctx, s, once)
		return err
	})
	return subscribed(once, kept, err)
}

// subscribed returns the answer to a request that reached the database.
func subscribed(once *idempotency.Request, kept store.Subscription, err error) (wire.Message, error) {
	reply := new(wire.SubscribeReply)
	switch {
	case errors.Is(err, idempotency.ErrKey):
		reply.Conflict, err = true, nil
	case err == nil && once != nil && once.Repeated:
		reply.Repeated = &kept
	}
	return reply, err
}

func (r *requests) validate(ctx context.Context, node string, req wire.SubscribeRequest) error {
	s := req.Subscription
	if s.ID == "" || s.AccountID == "" || s.CreatedAt.IsZero() || !s.RevokedAt.IsZero() {
		return fmt.Errorf("%w: subscription %q is incomplete", store.ErrInvalid, s.ID)
	}
	if raw, err := hex.DecodeString(s.Secret); err != nil || len(raw) != 32 {
		return fmt.Errorf("%w: subscription %q has no proper secret", store.ErrInvalid, s.ID)
	}
	claim := grant.Claim{
		KeyHash: req.KeyHash, KeyID: s.KeyID, AccountID: s.AccountID, Environment: s.Environment, Scope: store.ScopeWriteWebhooks,
	}
	if err := r.granted(ctx, node, claim); err != nil || len(req.KeyHash) > 0 {
		return err
	}
	key, err := r.DB.Key(ctx, s.KeyID) // an older node names its key by the id alone
	if err != nil {
		return err
	}
	claim.KeyHash = key.Hash[:]
	return grant.Judge(key, claim, r.DB.Now())
}

func (r *requests) revoke(ctx context.Context, node string, req wire.RevokeRequest) (wire.Message, error) {
	reply := new(wire.RevokeReply)
	err := r.mayRevoke(ctx, node, req)
	if err != nil {
		return reply, err
	}
	if req.Once != "" {
		reply.Already, err = r.DB.AbandonSubscription(ctx, req.AccountID, req.ID, req.Once)
	} else {
		reply.Already, err = r.DB.RevokeSubscription(ctx, req.AccountID, req.ID)
	}
	return reply, err
}

// mayRevoke refuses a revocation that no key grants. A subscription that nobody was
// told of is revoked in the name of its own key, which may have ended, within a week.
func (r *requests) mayRevoke(ctx context.Context, node string, req wire.RevokeRequest) error {
	if !req.Untold || len(req.KeyHash) == 0 {
		return r.granted(ctx, node, grant.Claim{KeyHash: req.KeyHash, AccountID: req.AccountID, Scope: store.ScopeWriteWebhooks})
	}
	s, err := r.DB.Subscription(ctx, req.ID)
	if errors.Is(err, store.ErrNotFound) && req.Once != "" { // the id of a repetition
		s, err = r.DB.AnsweredSubscription(ctx, req.AccountID, req.ID, req.Once)
	}
	if err != nil {
		return err
	}
	key, err := r.DB.Key(ctx, s.KeyID)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(req.KeyHash, key.Hash[:]):
		return grant.OtherKey
	case r.DB.Now().Sub(s.CreatedAt) > grant.Late:
		return grant.KeyEnded
	}
	return nil
}

func (r *requests) spend(ctx context.Context, node string, req wire.Spend) (wire.Message, error) {
	vouched := r.presence.vouched(node)
	err := r.merge.Report(ctx, node, vouched, req)
	if errors.Is(err, store.ErrInvalid) {
		return &wire.Head{}, err
	}
	return &wire.Head{}, errors.Join(err, r.usage.report(ratelimit.Reporter{Node: node, Boot: req.Boot}, vouched, req.Usage))
}

// maxStatusText bounds the texts of a node's status, in bytes: lists of nodes, and rollouts,
// have them.
const maxStatusText = 16 << 10

// textOf counts the bytes of a status's texts, and of what else has no length of its own.
func textOf(s *wire.Status) int {
	n := len(s.Region) + len(s.Build)
	for _, at := range []*wire.ReleaseStatus{s.Running, s.Candidate} {
		if at == nil {
			continue
		}
		n += len(at.Digest) + len(at.Version) + len(at.State) + len(at.Reason) + len(at.Rollout)
		if at.Counts != nil {
			n += len(at.Counts.Latency)
			for reason := range at.Counts.Failures {
				n += len(reason) + 1
			}
		}
	}
	if s.Traffic != nil {
		n += len(s.Traffic.Latency)
	}
	return n
}

func (r *requests) status(_ context.Context, node string, req wire.Status) (wire.Message, error) {
	if c := req.Candidate; c != nil { // a node of an earlier program says all of it
		c.Reason = wire.CutReason(c.Reason)
	}
	if n := textOf(&req); n > maxStatusText {
		return &wire.Head{}, fmt.Errorf("%w: a status with %d bytes of text", store.ErrInvalid, n)
	}
	r.presence.receive(node, req)
	return &wire.Head{}, nil
}

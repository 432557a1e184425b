package admin

import (
	"cmp"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// The functions below make the admin JSON types of records. They name each field,
// so that a field that a record gains later is not shown by itself.

func stamp(t time.Time) adminapi.Time { return adminapi.Time{Time: t} }

func toAccount(a store.Account) adminapi.Account {
	return adminapi.Account{
		ID: a.ID, Name: a.Name, ActivationMode: string(a.Mode), CreatedAt: stamp(a.CreatedAt),
		Agent: adminapi.Agent{ID: a.Agent.ID, Email: a.Agent.Email, FullName: a.Agent.FullName, JoinedAt: stamp(a.Agent.JoinedAt)},
	}
}

func (a *api) toKey(k store.Key) adminapi.Key {
	v := adminapi.Key{
		ID: k.ID, AccountID: k.AccountID, Environment: string(k.Environment), State: keyState(k, a.DB.Now()),
		Scopes: append([]string{}, k.Scopes...), IPAllowlist: []string{}, RateLimit: k.RateLimit, Label: k.Label,
		CreatedAt: stamp(k.CreatedAt), ExpiresAt: stamp(k.ExpiresAt),
		GraceUntil: stamp(k.GraceUntil), RevokedAt: stamp(k.RevokedAt),
	}
	for _, p := range k.Allowlist {
		if p.IsSingleIP() {
			v.IPAllowlist = append(v.IPAllowlist, p.Addr().String())
		} else {
			v.IPAllowlist = append(v.IPAllowlist, p.String())
		}
	}
	if k.SuccessorID != "" {
		v.SuccessorID = &k.SuccessorID
	}
	return v
}

// keyState returns the state that a request with the key meets: active, in_grace,
// expired or revoked. The end of grace, or the expiry in it, revokes a rotated key.
func keyState(k store.Key, now time.Time) string {
	expired, rotated := !now.Before(k.ExpiresAt), !k.GraceUntil.IsZero()
	switch {
	case !k.RevokedAt.IsZero(), rotated && (expired || !now.Before(k.GraceUntil)):
		return "revoked"
	case rotated:
		return "in_grace"
	case expired:
		return "expired"
	default:
		return "active"
	}
}

func toCoachingRun(insights []store.Insight, e *store.Event) adminapi.CoachingRun {
	v := adminapi.CoachingRun{Insights: []adminapi.Insight{}, EventID: eventID(e)}
	for _, i := range insights {
		v.Insights = append(v.Insights, toInsight(i))
	}
	return v
}

func toInsight(i store.Insight) adminapi.Insight {
	return adminapi.Insight{
		ID: i.ID, AccountID: i.AccountID, Headline: i.Headline, Detail: i.Detail, CreatedAt: stamp(i.CreatedAt),
	}
}

func toFiring(f store.Firing, e *store.Event) adminapi.Firing {
	return adminapi.Firing{
		ID: f.ID, AccountID: f.AccountID, SentinelName: f.Name, TriggeredAt: stamp(f.TriggeredAt),
		TriggerData: f.Data, ActionTaken: f.Action, EventID: eventID(e),
	}
}

func toDeal(d store.Deal, e *store.Event) adminapi.Deal {
	return adminapi.Deal{ID: d.ID, AccountID: d.AccountID, Stage: d.Stage, ChangedAt: stamp(d.ChangedAt), EventID: eventID(e)}
}

func toContact(c store.Contact, e *store.Event) adminapi.Contact {
	return adminapi.Contact{
		ID: c.ID, AccountID: c.AccountID, ClientID: c.ClientID, Channel: c.Channel, OccurredAt: stamp(c.OccurredAt), EventID: eventID(e),
	}
}

func toGoal(g store.Goal, e *store.Event) adminapi.Goal {
	return adminapi.Goal{ID: g.ID, AccountID: g.AccountID, Pace: g.Pace, ChangedAt: stamp(g.ChangedAt), EventID: eventID(e)}
}

func eventID(e *store.Event) string {
	if e == nil {
		return ""
	}
	return e.ID
}

func toLead(l store.Lead) adminapi.Lead {
	return adminapi.Lead{
		ID: l.ID, AccountID: l.AccountID, KeyID: l.KeyID, Environment: string(l.Environment),
		FirstName: l.FirstName, LastName: l.LastName, Email: l.Email, Phone: l.Phone,
		ConsentStatus: l.ConsentStatus, ConsentText: l.ConsentText, CapturedAt: stamp(l.CapturedAt),
		OutreachAllowed: l.OutreachAllowed, CreatedAt: stamp(l.CreatedAt),
	}
}

func (a *api) toWebhook(s store.Subscription) adminapi.Webhook {
	return adminapi.Webhook{
		ID: s.ID, AccountID: s.AccountID, KeyID: s.KeyID, Environment: string(s.Environment), TargetURL: s.TargetURL,
		Events: append([]string{}, s.Events...), Description: s.Description, CreatedAt: stamp(s.CreatedAt),
		RevokedAt: stamp(s.RevokedAt), FailingFrom: stamp(s.FailingFrom), State: webhookState(s, a.DB.Now()),
	}
}

// webhookState returns active, failing, failing_long or revoked.
func webhookState(s store.Subscription, now time.Time) string {
	switch {
	case !s.RevokedAt.IsZero():
		return "revoked"
	case s.FailingFrom.IsZero():
		return "active"
	case now.Sub(s.FailingFrom) < store.FailingLong:
		return "failing"
	default:
		return "failing_long"
	}
}

func toDelivery(d store.Delivery, tries []store.Attempt) adminapi.Delivery {
	v := adminapi.Delivery{
		ID: d.ID, EventID: d.EventID, EventType: d.EventType, SubscriptionID: d.SubscriptionID, AccountID: d.AccountID,
		State: string(d.State), Attempts: d.Attempts, NextAt: stamp(d.NextAt), CreatedAt: stamp(d.CreatedAt),
		UpdatedAt: stamp(d.UpdatedAt), Tries: []adminapi.Try{},
	}
	for _, t := range tries {
		v.Tries = append(v.Tries, toTry(t))
	}
	return v
}

func toTry(t store.Attempt) adminapi.Try {
	v := adminapi.Try{
		ID: t.ID, Number: t.Number, StartedAt: stamp(t.StartedAt), LatencyMS: float64(t.Latency.Microseconds()) / 1000,
		RequestHeaders: t.Headers, ResponseExcerpt: t.Excerpt, Error: t.Error,
	}
	if t.Status != 0 {
		v.Status = &t.Status
	}
	return v
}

func toTried(t store.Tried) adminapi.Tried {
	return adminapi.Tried{
		SubscriptionID: t.SubscriptionID, TargetURL: t.TargetURL, EventID: t.EventID, EventType: t.EventType,
		State: string(t.State), NextAt: stamp(t.NextAt), Try: toTry(t.Attempt),
	}
}

// toNode describes a node; ids are those of the releases that nodes run, by digest.
func (a *api) toNode(n store.Node, ids map[string]string) adminapi.Node {
	at := a.Nodes.Report(n.ID)
	v := adminapi.Node{
		ID: n.ID, Name: n.Name, Region: n.Region, PublicKey: n.PublicKey, CreatedAt: stamp(n.CreatedAt),
		RevokedAt: stamp(n.RevokedAt), LastSeenAt: stamp(n.LastSeenAt), Build: n.Version, Connected: at.Connected,
	}
	if !at.At.IsZero() {
		s := at.Status
		v.Status = &adminapi.NodeStatus{
			Region: s.Region, Build: s.Build, Seq: s.Seq, Outbox: s.Outbox, HotKeys: s.HotKeys, Sandboxes: s.Sandboxes,
			Running: toNodeRelease(s.Running, ids), Candidate: toNodeRelease(s.Candidate, ids),
		}
		v.Build, v.Release = s.Build, toServing(&s, ids)
		if seen := a.Nodes.Shared(at.At); seen.After(n.LastSeenAt) {
			v.LastSeenAt = stamp(seen)
		}
	}
	return v
}

// toServing describes the release that answers most requests of a node.
func toServing(s *wire.Status, ids map[string]string) *adminapi.NodeRelease {
	serving, percent := s.Serving()
	v := toNodeRelease(serving, ids)
	if v == nil {
		return nil
	}
	v.Percent, v.State = percent, wire.StateServing
	switch {
	case serving == s.Candidate:
		v.State = wire.StateRollingOut
	case serving.Digest == "":
		v.State = wire.StateOwnModules
	}
	return v
}

func toNodeRelease(s *wire.ReleaseStatus, ids map[string]string) *adminapi.NodeRelease {
	if s == nil {
		return nil
	}
	return &adminapi.NodeRelease{ID: ids[s.Digest], Digest: s.Digest, Version: s.Version, State: string(s.State), Reason: s.Reason, Percent: s.Percent}
}

func toRelease(r store.Release) adminapi.Release {
	v := adminapi.Release{
		ID: r.ID, Version: r.Version, Digest: r.Digest, Size: r.Size, CreatedAt: stamp(r.CreatedAt),
		Modules: []adminapi.ReleaseModule{}, Signers: []adminapi.ReleaseSigner{},
	}
	for _, m := range r.Modules {
		v.Modules = append(v.Modules, adminapi.ReleaseModule(m))
	}
	for _, s := range r.Signers {
		v.Signers = append(v.Signers, adminapi.ReleaseSigner(s))
	}
	return v
}

// toRolloutHead describes a rollout without its nodes.
func toRolloutHead(r store.Rollout) adminapi.Rollout {
	return adminapi.Rollout{
		ID: r.ID, ReleaseID: r.Release, Digest: r.Digest, Version: r.Version, State: string(r.State), Reason: r.Reason,
		Stages: r.Stages, Stage: r.Stages[r.Stage], CanaryPercent: r.Canary, Trying: r.Trying, PauseSeconds: r.Pause.Seconds(),
		Everywhere: r.Everywhere, Since: stamp(r.Since), CreatedAt: stamp(r.CreatedAt), UpdatedAt: stamp(r.UpdatedAt),
		NodeCount: len(r.Nodes), Nodes: []adminapi.RolloutNode{},
	}
}

func (a *api) toRollout(r store.Rollout) adminapi.Rollout {
	v := toRolloutHead(r)
	reports := a.Nodes.Enrolled()
	for i, n := range r.Nodes {
		at := reports[n.ID]
		// A rollback that is over has heard the connected nodes, also if the clock was put back since.
		heard := r.HeardBack(i, a.Nodes.Shared(at.At)) || at.Connected && r.State == store.RolledBack
		one := toRolloutNode(r, n, at, heard)
		node := a.Nodes.Report(n.ID).Node // a revoked one has a name, and no report
		one.Name, one.Region = node.Name, node.Region
		if one.State == "serving" && one.Connected {
			v.Serving++
		}
		v.Nodes = append(v.Nodes, one)
	}
	return v
}

// toRolloutNode describes a node of a rollout. Where the nodes are to go back, heard says that this
// one was heard since, or that the release had not reached it.
func toRolloutNode(r store.Rollout, n store.RolloutNode, at replication.Report, heard bool) adminapi.RolloutNode {
	v := adminapi.RolloutNode{ID: n.ID, Connected: at.Connected && at.Status.Running != nil, Before: n.Before, State: "waiting"}
	var counts *wire.ReleaseCounts
	running, candidate := at.Status.Running, at.Status.Candidate
	back := r.State.Back()
	why := "" // it does not run what it ran before; its order is of no rollout once this one has ended
	if candidate != nil && candidate.Digest == n.Before && (candidate.Rollout == r.ID || candidate.Rollout == "") {
		why = candidate.Reason
	}
	if back && !heard {
		why = cmp.Or(why, "it has not been heard since it was told to go back")
	}
	switch {
	case candidate != nil && candidate.Digest == r.Digest && candidate.Rollout == r.ID:
		v.State, v.Reason, v.Percent, counts = string(candidate.State), candidate.Reason, candidate.Percent, candidate.Counts
		if candidate.State == wire.ReleaseReady && candidate.Percent > 0 {
			v.State = "serving"
		}
	case back && heard && running != nil && running.Digest == n.Before:
		v.State = "back"
		if n.Before == r.Digest {
			v.Reason, v.Percent, counts = "it ran this release before the rollout", 100, running.Counts
		}
	case running != nil && running.Digest == r.Digest:
		v.State, v.Reason, v.Percent, counts = "serving", why, 100, running.Counts
	case back || why != "":
		v.Reason = why
	case candidate != nil && candidate.Digest == r.Digest:
		v.Reason = candidate.Reason // why it does not run a release whose rollout has ended
	}
	if counts != nil {
		v.Requests, v.Errors, v.Failures = counts.Requests, counts.Errors, counts.Failed()
	}
	return v
}

func toToken(t store.Token) adminapi.Token {
	return adminapi.Token{
		ID: t.ID, Name: t.Name, Role: string(t.Role), CreatedAt: stamp(t.CreatedAt), RevokedAt: stamp(t.RevokedAt),
		ExpiresAt: stamp(t.ExpiresAt), LastUsedAt: stamp(t.LastUsedAt),
	}
}

func toAudit(a store.Audit) adminapi.Audit {
	return adminapi.Audit{
		ID: a.ID, At: stamp(a.At), Action: a.Action, Target: a.Target, Before: a.Before, After: a.After,
		Actor: adminapi.Actor{ID: a.Actor.ID, Name: a.Actor.Name, Role: string(a.Actor.Role), Remote: a.Actor.Remote},
	}
}

package admin

import (
	"encoding/json"
	"time"

	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// stamp writes a time as the API does: UTC, RFC 3339 with microseconds, null
// when it is not set.
type stamp time.Time

func (s stamp) MarshalJSON() ([]byte, error) {
	t := time.Time(s)
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(t.UTC().Format(`"2006-01-02T15:04:05.000000Z"`)), nil
}

// Records as the API shows them. They name each field that is shown, so that a
// field that a record gains later is not shown by itself.

type accountView struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Mode      string    `json:"activation_mode"`
	Agent     agentView `json:"agent"`
	CreatedAt stamp     `json:"created_at"`
}

type agentView struct {
	ID       string `json:"id"`
	Email    string `json:"email"`
	FullName string `json:"full_name"`
	JoinedAt stamp  `json:"joined_at"`
}

func viewAccount(a store.Account) accountView {
	return accountView{
		ID: a.ID, Name: a.Name, Mode: string(a.Mode), CreatedAt: stamp(a.CreatedAt),
		Agent: agentView{ID: a.Agent.ID, Email: a.Agent.Email, FullName: a.Agent.FullName, JoinedAt: stamp(a.Agent.JoinedAt)},
	}
}

type keyView struct {
	ID          string   `json:"id"`
	AccountID   string   `json:"account_id"`
	Environment string   `json:"environment"`
	State       string   `json:"state"`
	Scopes      []string `json:"scopes"`
	Allowlist   []string `json:"ip_allowlist"`
	RateLimit   int      `json:"rate_limit"`
	Label       string   `json:"label"`
	CreatedAt   stamp    `json:"created_at"`
	ExpiresAt   stamp    `json:"expires_at"`
	GraceUntil  stamp    `json:"grace_until"`
	RevokedAt   stamp    `json:"revoked_at"`
	SuccessorID *string  `json:"successor_id"`
}

func viewKey(k store.Key, now time.Time) keyView {
	v := keyView{
		ID: k.ID, AccountID: k.AccountID, Environment: string(k.Environment), State: keyState(k, now),
		Scopes: append([]string{}, k.Scopes...), Allowlist: []string{}, RateLimit: k.RateLimit, Label: k.Label,
		CreatedAt: stamp(k.CreatedAt), ExpiresAt: stamp(k.ExpiresAt),
		GraceUntil: stamp(k.GraceUntil), RevokedAt: stamp(k.RevokedAt),
	}
	for _, p := range k.Allowlist {
		if p.IsSingleIP() {
			v.Allowlist = append(v.Allowlist, p.Addr().String())
		} else {
			v.Allowlist = append(v.Allowlist, p.String())
		}
	}
	if k.SuccessorID != "" {
		v.SuccessorID = &k.SuccessorID
	}
	return v
}

// keyState is what a request with the key meets: active, in_grace, expired or
// revoked, which the end of grace is as well.
func keyState(k store.Key, now time.Time) string {
	switch {
	case !k.RevokedAt.IsZero():
		return "revoked"
	case !now.Before(k.ExpiresAt):
		return "expired"
	case k.GraceUntil.IsZero():
		return "active"
	case now.Before(k.GraceUntil):
		return "in_grace"
	default:
		return "revoked"
	}
}

type insightView struct {
	ID        string `json:"id"`
	AccountID string `json:"account_id"`
	Headline  string `json:"headline"`
	Detail    string `json:"detail"`
	CreatedAt stamp  `json:"created_at"`
}

type runView struct {
	Insights []insightView `json:"insights"`
	EventID  string        `json:"event_id,omitempty"`
}

func viewRun(insights []store.Insight, e *store.Event) runView {
	v := runView{Insights: []insightView{}, EventID: eventID(e)}
	for _, i := range insights {
		v.Insights = append(v.Insights, insightView{i.ID, i.AccountID, i.Headline, i.Detail, stamp(i.CreatedAt)})
	}
	return v
}

type firingView struct {
	ID          string          `json:"id"`
	AccountID   string          `json:"account_id"`
	Name        string          `json:"sentinel_name"`
	TriggeredAt stamp           `json:"triggered_at"`
	Data        json.RawMessage `json:"trigger_data"`
	Action      string          `json:"action_taken"`
	EventID     string          `json:"event_id,omitempty"`
}

func viewFiring(f store.Firing, e *store.Event) firingView {
	return firingView{f.ID, f.AccountID, f.Name, stamp(f.TriggeredAt), f.Data, f.Action, eventID(e)}
}

type dealView struct {
	ID        string `json:"id"`
	AccountID string `json:"account_id"`
	Stage     string `json:"stage"`
	ChangedAt stamp  `json:"changed_at"`
	EventID   string `json:"event_id,omitempty"`
}

func viewDeal(d store.Deal, e *store.Event) dealView {
	return dealView{d.ID, d.AccountID, d.Stage, stamp(d.ChangedAt), eventID(e)}
}

type contactView struct {
	ID         string `json:"id"`
	AccountID  string `json:"account_id"`
	ClientID   string `json:"client_id"`
	Channel    string `json:"channel"`
	OccurredAt stamp  `json:"occurred_at"`
	EventID    string `json:"event_id,omitempty"`
}

func viewContact(c store.Contact, e *store.Event) contactView {
	return contactView{c.ID, c.AccountID, c.ClientID, c.Channel, stamp(c.OccurredAt), eventID(e)}
}

type goalView struct {
	ID        string `json:"id"`
	AccountID string `json:"account_id"`
	Pace      string `json:"pace"`
	ChangedAt stamp  `json:"changed_at"`
	EventID   string `json:"event_id,omitempty"`
}

func viewGoal(g store.Goal, e *store.Event) goalView {
	return goalView{g.ID, g.AccountID, g.Pace, stamp(g.ChangedAt), eventID(e)}
}

func eventID(e *store.Event) string {
	if e == nil {
		return ""
	}
	return e.ID
}

type leadView struct {
	ID              string `json:"id"`
	AccountID       string `json:"account_id"`
	KeyID           string `json:"key_id"`
	Environment     string `json:"environment"`
	FirstName       string `json:"first_name"`
	LastName        string `json:"last_name"`
	Email           string `json:"email"`
	Phone           string `json:"phone"`
	ConsentStatus   string `json:"consent_status"`
	ConsentText     string `json:"consent_text"`
	CapturedAt      stamp  `json:"captured_at"`
	OutreachAllowed bool   `json:"outreach_allowed"`
	CreatedAt       stamp  `json:"created_at"`
}

func viewLead(l store.Lead) leadView {
	return leadView{
		l.ID, l.AccountID, l.KeyID, string(l.Environment), l.FirstName, l.LastName, l.Email, l.Phone,
		l.ConsentStatus, l.ConsentText, stamp(l.CapturedAt), l.OutreachAllowed, stamp(l.CreatedAt),
	}
}

// webhookView has no secret.
type webhookView struct {
	ID          string   `json:"id"`
	AccountID   string   `json:"account_id"`
	KeyID       string   `json:"key_id"`
	Environment string   `json:"environment"`
	TargetURL   string   `json:"target_url"`
	Events      []string `json:"events"`
	Description *string  `json:"description"`
	CreatedAt   stamp    `json:"created_at"`
	RevokedAt   stamp    `json:"revoked_at"`
	FailingFrom stamp    `json:"failing_from"`
	State       string   `json:"state"`
}

func viewWebhook(s store.Subscription, now time.Time) webhookView {
	return webhookView{
		s.ID, s.AccountID, s.KeyID, string(s.Environment), s.TargetURL, append([]string{}, s.Events...), s.Description,
		stamp(s.CreatedAt), stamp(s.RevokedAt), stamp(s.FailingFrom), webhookState(s, now),
	}
}

// failingLong is after how long an endpoint that fails is marked. It is not
// revoked: only its partner knows whether it is still wanted.
const failingLong = 5 * 24 * time.Hour

// webhookState is active, failing, failing_long or revoked.
func webhookState(s store.Subscription, now time.Time) string {
	switch {
	case !s.RevokedAt.IsZero():
		return "revoked"
	case s.FailingFrom.IsZero():
		return "active"
	case now.Sub(s.FailingFrom) < failingLong:
		return "failing"
	default:
		return "failing_long"
	}
}

type deliveryView struct {
	ID             string    `json:"id"`
	EventID        string    `json:"event_id"`
	EventType      string    `json:"event_type"`
	SubscriptionID string    `json:"subscription_id"`
	AccountID      string    `json:"account_id"`
	State          string    `json:"state"`
	Attempts       int       `json:"attempts"`
	NextAt         stamp     `json:"next_at"`
	CreatedAt      stamp     `json:"created_at"`
	UpdatedAt      stamp     `json:"updated_at"`
	Tries          []tryView `json:"tries"`
}

type tryView struct {
	ID        string            `json:"id"`
	Number    int               `json:"number"`
	StartedAt stamp             `json:"started_at"`
	LatencyMS float64           `json:"latency_ms"`
	Status    *int              `json:"status"` // null when no answer came
	Headers   map[string]string `json:"request_headers"`
	Excerpt   string            `json:"response_excerpt"`
	Error     string            `json:"error,omitempty"`
}

func viewDelivery(d store.Delivery, tries []store.Attempt) deliveryView {
	v := deliveryView{
		d.ID, d.EventID, d.EventType, d.SubscriptionID, d.AccountID, string(d.State), d.Attempts,
		stamp(d.NextAt), stamp(d.CreatedAt), stamp(d.UpdatedAt), []tryView{},
	}
	for _, t := range tries {
		v.Tries = append(v.Tries, viewTry(t))
	}
	return v
}

func viewTry(t store.Attempt) tryView {
	v := tryView{
		ID: t.ID, Number: t.Number, StartedAt: stamp(t.StartedAt), LatencyMS: float64(t.Latency.Microseconds()) / 1000,
		Headers: t.Headers, Excerpt: t.Excerpt, Error: t.Error,
	}
	if t.Status != 0 {
		v.Status = &t.Status
	}
	return v
}

type nodeView struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Region     string          `json:"region"`
	PublicKey  string          `json:"public_key"`
	CreatedAt  stamp           `json:"created_at"`
	RevokedAt  stamp           `json:"revoked_at"`
	LastSeenAt stamp           `json:"last_seen_at"`
	Version    string          `json:"version"`
	Connected  bool            `json:"connected"`
	Status     *nodeStatusView `json:"status"` // null before the first is heard
}

type nodeStatusView struct {
	Region    string `json:"region"`
	Release   string `json:"release"`
	Seq       int64  `json:"seq"`
	Outbox    int    `json:"outbox"`
	HotKeys   int    `json:"hot_keys"`
	Sandboxes int    `json:"sandboxes"`

	Running   *nodeReleaseView `json:"running"`
	Candidate *nodeReleaseView `json:"candidate"`
}

type nodeReleaseView struct {
	Digest  string `json:"digest"`
	Version string `json:"version"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
	Percent int    `json:"percent"`
}

func viewNodeRelease(s *wire.ReleaseStatus) *nodeReleaseView {
	if s == nil {
		return nil
	}
	return &nodeReleaseView{s.Digest, s.Version, string(s.State), s.Reason, s.Percent}
}

func viewNode(n store.Node, at replication.Report) nodeView {
	v := nodeView{
		ID: n.ID, Name: n.Name, Region: n.Region, PublicKey: n.PublicKey, CreatedAt: stamp(n.CreatedAt),
		RevokedAt: stamp(n.RevokedAt), LastSeenAt: stamp(n.LastSeenAt), Version: n.Version,
	}
	v.Connected = at.Connected
	if !at.At.IsZero() {
		status := at.Status
		v.Status = &nodeStatusView{status.Region, status.Release, status.Seq, status.Outbox, status.HotKeys, status.Sandboxes,
			viewNodeRelease(status.Running), viewNodeRelease(status.Candidate)}
		if at.At.After(n.LastSeenAt) {
			v.LastSeenAt = stamp(at.At)
		}
	}
	return v
}

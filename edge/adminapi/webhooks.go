package adminapi

import "fmt"

// Webhook is a subscription without its secret.
type Webhook struct {
	ID          string   `json:"id"`
	AccountID   string   `json:"account_id"`
	KeyID       string   `json:"key_id"`
	Environment string   `json:"environment"`
	TargetURL   string   `json:"target_url"`
	Events      []string `json:"events"`
	Description *string  `json:"description"`
	CreatedAt   Time     `json:"created_at"`
	RevokedAt   Time     `json:"revoked_at"`
	FailingFrom Time     `json:"failing_from"`
	State       string   `json:"state"` // active, failing, failing_long or revoked
}

// SecretRotation is the request that gives a subscription a new secret.
type SecretRotation struct {
	OverlapSeconds *int64 `json:"overlap_seconds,omitempty"` // for which the secret before signs too; default SecretOverlap
}

// RotatedSecret is a subscription and its new secret.
type RotatedSecret struct {
	Webhook      Webhook `json:"webhook"`
	Secret       string  `json:"secret"`
	OverlapUntil Time    `json:"overlap_until"`
}

// Delivery is an event on its way to a subscription, with every try. A try fails when
// no 2xx comes; it is refused when the guard does not let it go to its target. A
// delivery is dead once its tries are used up, or the next one has been due for three days
// and the endpoint fails: it is tried again only when somebody says so.
type Delivery struct {
	ID             string `json:"id"`
	EventID        string `json:"event_id"`
	EventType      string `json:"event_type"`
	SubscriptionID string `json:"subscription_id"`
	AccountID      string `json:"account_id"`
	State          string `json:"state"` // pending, delivered, dead or cancelled
	Attempts       int    `json:"attempts"`
	NextAt         Time   `json:"next_at"`
	CreatedAt      Time   `json:"created_at"`
	UpdatedAt      Time   `json:"updated_at"`
	Tries          []Try  `json:"tries"`

	// Of a delivery that is read by itself, "" in lists:
	Body      string `json:"body,omitempty"` // as it is posted, byte for byte
	TargetURL string `json:"target_url,omitempty"`
}

// Try is one try to deliver an event.
type Try struct {
	ID              string            `json:"id"`     // sent as x-svc-delivery-id
	Number          int               `json:"number"` // from 1
	StartedAt       Time              `json:"started_at"`
	LatencyMS       float64           `json:"latency_ms"`
	Status          *int              `json:"status"` // null without an answer
	RequestHeaders  map[string]string `json:"request_headers"`
	ResponseExcerpt string            `json:"response_excerpt"`
	Error           string            `json:"error,omitempty"`
}

// Result describes what came of the try.
func (t Try) Result() string {
	text := fmt.Sprintf("no answer after %.0f ms", t.LatencyMS)
	if t.Status != nil {
		text = fmt.Sprintf("%d after %.0f ms", *t.Status, t.LatencyMS)
	}
	if t.Error != "" {
		text += ": " + t.Error
	}
	return text
}

// Tried is an event of the stream of tries: a try that has just ended, and the
// state of its delivery.
type Tried struct {
	SubscriptionID string `json:"subscription_id"`
	TargetURL      string `json:"target_url"`
	EventID        string `json:"event_id"`
	EventType      string `json:"event_type"`
	State          string `json:"state"`
	NextAt         Time   `json:"next_at"`
	Try            Try    `json:"try"`
}

// Recovery is the request that queues the dead deliveries of a subscription, or of all,
// again.
type Recovery struct {
	Since  *string `json:"since,omitempty"`  // RFC 3339
	Until  *string `json:"until,omitempty"`  // RFC 3339; default: no bound
	Cursor *string `json:"cursor,omitempty"` // of the answer to go on from; default: begin
}

// Recovered counts the deliveries that one Recovery queued, and says where the next goes on.
type Recovered struct {
	Queued     int    `json:"queued"`
	NextCursor Cursor `json:"next_cursor"` // null when all is done
}

// Outcomes counts the newest deliveries since a time, at most as many as Most, by
// their states.
type Outcomes struct {
	Since     Time `json:"since"`
	Most      int  `json:"most"`
	Pending   int  `json:"pending"`
	Delivered int  `json:"delivered"`
	Dead      int  `json:"dead"`
	Cancelled int  `json:"cancelled"`
}

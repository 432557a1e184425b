package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/output"
	"partneredge/edge/webhook"
	"partneredge/store"
	"partneredge/wasm/event"
)

func newTrigger() *cobra.Command {
	return newLocalCommand("trigger EVENT --to URL", "send a signed sample of an event to a program of yours", defineTrigger)
}

// sample is the data of an example of an event, as of a time.
type sample struct {
	event string
	data  func(at time.Time) any
}

// samples returns an example of each event of the contract.
func samples() []sample {
	return []sample{
		{event.InsightCreated, func(at time.Time) any {
			return event.Insight{InsightID: store.NewID("ins", at), Headline: "Call back within five minutes", CreatedAt: event.Time(at)}
		}},
		{event.SentinelFired, func(at time.Time) any {
			return event.Firing{FiringID: store.NewID("fir", at), SentinelName: "stale_lead", TriggeredAt: event.Time(at), ActionTaken: "task_created"}
		}},
		{event.DealChanged, func(at time.Time) any {
			return event.Deal{DealID: "deal-1", FromStage: "offer", ToStage: "under_contract", ChangedAt: event.Time(at)}
		}},
		{event.ClientContacted, func(at time.Time) any {
			return event.Contact{ContactID: store.NewID("con", at), ClientID: "client-7", Channel: "phone", OccurredAt: event.Time(at)}
		}},
		{event.GoalChanged, func(at time.Time) any {
			return event.Goal{GoalID: "goal-2026", Pace: "behind", PreviousPace: "on_pace", ChangedAt: event.Time(at)}
		}},
	}
}

// sampleMessage returns a new event of a type with example data; ok is false for a type
// that there is not.
func sampleMessage(kind, account string, at time.Time) (m webhook.Message, ok bool, err error) {
	for _, s := range samples() {
		if s.event == kind {
			m = webhook.Message{EventID: store.NewID("evt", at), EventType: kind}
			m.Body, err = event.Body(event.Head{ID: m.EventID, Type: kind, AccountID: account, CreatedAt: at}, s.data(at))
			return m, true, err
		}
	}
	return m, false, nil
}

// triggered is the outcome in the output.
type triggered struct {
	To         string            `json:"to"`
	Event      string            `json:"event"`
	EventID    string            `json:"event_id"`
	DeliveryID string            `json:"delivery_id"`
	Status     *int              `json:"status"` // null without an answer
	Latency    float64           `json:"latency_ms"`
	Answer     string            `json:"answer,omitempty"` // its first 4 KiB
	Error      string            `json:"error,omitempty"`
	Headers    map[string]string `json:"headers"` // that were sent
	Body       json.RawMessage   `json:"body"`
}

func defineTrigger(flags *pflag.FlagSet) handler {
	to := flags.String("to", "", "`URL` to post to, such as http://localhost:3000/hook; any address is allowed")
	account := flags.String("account", "", "`ID` of the account that the event names (default: a made-up one)")
	var secret secretFlags
	secret.register(flags)
	return func(ctx context.Context, c *invocation) error {
		if err := required(c.cmd, "to"); err != nil {
			return err
		}
		if !isHTTP(*to) {
			return misused(c.cmd, "--to %q is no address such as http://localhost:3000/hook", *to)
		}
		at := time.Now()
		m, known, err := sampleMessage(c.args[0], cmp.Or(*account, store.NewID("acc", at)), at)
		if err != nil {
			return err
		}
		if !known {
			return usagef("the events are "+eventNames(), "trigger: there is no event %q", c.args[0])
		}
		key, err := secret.get(c.cmd)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.stderr, "sending a sample of %s to %s, signed with %s\n", m.EventType, output.Plain(*to), key.origin)
		p := newPoster()
		defer p.close()
		t := newTry(m, key.text)
		done := p.post(ctx, *to, m, t)
		return c.triggered(*to, m, t, done)
	}
}

// eventNames lists the events of the contract.
func eventNames() string {
	var names []string
	for _, s := range samples() {
		names = append(names, s.event)
	}
	return strings.Join(names, ", ")
}

// triggered shows the outcome of a try. Its error is that there was no 2xx answer.
func (c *invocation) triggered(to string, m webhook.Message, t try, done posted) error {
	raw, err := json.Marshal(triggered{
		To: to, Event: m.EventType, EventID: m.EventID, DeliveryID: t.id, Status: done.Status, Latency: done.milliseconds(),
		Answer: done.Answer, Error: done.Error, Headers: t.headers, Body: m.Body,
	})
	if err != nil {
		return err
	}
	err = c.Print(raw, func(w io.Writer) {
		fmt.Fprintf(w, "event\t%s %s\n", m.EventType, m.EventID)
		fmt.Fprintf(w, "delivery\t%s\n", t.id)
		if done.Status != nil {
			fmt.Fprintf(w, "status\t%d in %.0f ms\n", *done.Status, done.milliseconds())
		}
		if done.Answer != "" {
			fmt.Fprintf(w, "answer\t%s\n", output.Plain(done.Answer))
		}
	})
	switch {
	case err != nil:
		return err
	case done.Status == nil:
		return hint(fmt.Errorf("posting the event: %s", output.Plain(done.Error)), "is your program running, and is this its address?")
	case !done.ok():
		return hint(fmt.Errorf("the receiver answered %d, which acknowledges nothing", *done.Status),
			"any 2xx does; 401 or 403 often mean that it verifies with another secret")
	}
	return nil
}

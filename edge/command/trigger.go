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

	"partneredge/edge/adminapi"
	"partneredge/edge/hint"
	"partneredge/edge/localwebhook"
	"partneredge/edge/output"
	"partneredge/store"
)

func newTrigger() *cobra.Command {
	return newLocalCommand("trigger EVENT --to URL", "send a signed sample of an event to a program of yours", defineTrigger)
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
	previous := flags.String("previous-secret", "", "`TEXT` of a secret that signs too, as the one before does while a secret is rotated")
	age := flags.Duration("age", 0, "`DURATION` for which the event was signed already; one of more than 5m is to be refused")
	repeat := flags.Int("repeat", 1, "`NUMBER` of times that the event is delivered, each under a delivery id of its own")
	var secret secretFlags
	secret.register(flags)
	return func(ctx context.Context, c *invocation) error {
		if err := required(c.cmd, "to"); err != nil {
			return err
		}
		switch {
		case !isHTTP(*to):
			return misused(c.cmd, "--to %q is no address such as http://localhost:3000/hook", *to)
		case *age < 0:
			return misused(c.cmd, "--age must not be negative")
		case c.cmd.Flags().Changed("previous-secret") && *previous == "":
			return misused(c.cmd, "--previous-secret is empty")
		case *repeat < 1:
			return misused(c.cmd, "--repeat must be 1 or more")
		}
		at := time.Now().Add(-*age)
		m, known, err := localwebhook.Sample(c.args[0], cmp.Or(*account, store.NewID("acc", at)), at)
		if err != nil {
			return err
		}
		if !known {
			return usagef("the events are "+strings.Join(adminapi.EventTypes(), ", "), "trigger: there is no event %q", c.args[0])
		}
		key, err := secret.get(c.cmd)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.stderr, "sending a sample of %s to %s, signed with %s\n", m.EventType, output.Plain(*to), key.origin)
		p := localwebhook.NewPoster()
		defer p.Close()
		for range *repeat {
			t := localwebhook.NewTry(m, time.Now().Add(-*age), key.text, *previous)
			if err := c.triggered(*to, t, p.Post(ctx, *to, t)); err != nil {
				return err
			}
		}
		return nil
	}
}

// triggered shows the outcome of a try. Its error is that there was no 2xx answer.
func (c *invocation) triggered(to string, t localwebhook.Try, done localwebhook.Outcome) error {
	v := triggered{
		To: to, Event: t.Message.EventType, EventID: t.Message.EventID, DeliveryID: t.ID, Status: done.Status, Latency: done.Milliseconds(),
		Answer: done.Answer, Error: done.Error, Headers: t.Headers, Body: t.Message.Body,
	}
	err := c.Value(v, func(w io.Writer) {
		fmt.Fprintf(w, "event\t%s %s\n", t.Message.EventType, t.Message.EventID)
		fmt.Fprintf(w, "delivery\t%s\n", t.ID)
		if done.Status != nil {
			fmt.Fprintf(w, "status\t%d in %.0f ms\n", *done.Status, done.Milliseconds())
		}
		if done.Answer != "" {
			fmt.Fprintf(w, "answer\t%s\n", output.Plain(done.Answer))
		}
	})
	switch {
	case err != nil:
		return err
	case done.Status == nil:
		return hint.Add(fmt.Errorf("posting the event: %s", output.Plain(done.Error)), "is your program running, is this its address, and does it answer before it does the work?")
	case !done.OK():
		return hint.Add(fmt.Errorf("the receiver answered %d, which acknowledges nothing", *done.Status), "%s", refusedHint(*done.Status))
	}
	return nil
}

// refusedHint says what a status other than 2xx often means.
func refusedHint(status int) string {
	switch {
	case status == 401 || status == 403:
		return "does it verify with this secret, the body as it arrived, and a clock that is right?"
	case status/100 == 3:
		return "redirects are not followed: give the address that this one leads to"
	}
	return "any 2xx acknowledges an event"
}

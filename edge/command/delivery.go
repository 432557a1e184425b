package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/output"
)

func newDelivery() *cobra.Command {
	group := newGroup("delivery", "list, show, retry, recover and follow webhook deliveries",
		newAdminCommand("list", "list the log of all subscriptions, or a part of it, newest first", defineDeliveriesList),
		newAdminCommand("show ID", "show a delivery with its body and tries, by its id or the x-svc-delivery-id of a try", func(*pflag.FlagSet) handler { return showDelivery }),
		newRecordCommand("retry DELIVERY", "have a delivery tried at once, by its id or that of a try", "POST /deliveries/%s/retry", nil,
			"id", "state", "attempts", "next_at"),
		newAdminCommand("recover [WEBHOOK]", "queue the dead deliveries of a subscription, or of all, again, of events since a time", defineDeliveriesRecover),
		newAdminCommand("tail", "follow the tries of an origin as they end", func(*pflag.FlagSet) handler { return tailDeliveries }),
	)
	group.Aliases = []string{"deliveries"}
	return group
}

func defineDeliveriesList(flags *pflag.FlagSet) handler {
	webhook := flags.String("webhook", "", "only those to the subscription of this `ID`")
	event := flags.String("event", "", "only those of the event of this `ID`")
	part := selection{
		"account_id": flags.String("account", "", "only those of the account of this `ID`"),
		"target":     flags.String("target", "", "only those to URLs that hold this `TEXT`"),
		"event_type": flags.String("type", "", "only those of events of this `TYPE`, such as sentinel.fired"),
	}
	part.span(flags, "those made")
	outcome := flags.String("outcome", "", "only those of this `OUTCOME`: pending, delivered, dead (its tries are used up, or were due for three days), cancelled, or refused (its last try, by the guard)")
	limit := flags.Int("limit", 50, "`NUMBER` of deliveries at most; 0: all")
	return func(ctx context.Context, c *invocation) error {
		query, err := part.query(c.cmd)
		if err != nil {
			return err
		}
		if len(query) > 0 && (*webhook != "" || *event != "") {
			return misused(c.cmd, "--webhook and --event do not go with --account, --target, --type, --since or --until")
		}
		path := "/deliveries"
		switch {
		case *limit < 0:
			return misused(c.cmd, "--limit must not be negative")
		case *webhook != "":
			path = "/webhooks/" + url.PathEscape(*webhook) + "/deliveries"
			if *event != "" {
				query.Set("event_id", *event)
			}
		case *event != "":
			path = "/events/" + url.PathEscape(*event) + "/deliveries"
		}
		if *outcome != "" {
			query.Set("outcome", *outcome)
		}
		if *limit > 0 {
			query.Set("limit", strconv.Itoa(min(*limit, 200)))
		}
		return c.list(ctx, path, query, *limit, "id", "state", "attempts", "event_type", "event_id", "subscription_id", "created_at", "next_at")
	}
}

func showDelivery(ctx context.Context, c *invocation) error {
	raw, delivery, err := call[adminapi.Delivery](ctx, c.admin, http.MethodGet, c.path("/deliveries/%s"), nil)
	if err != nil {
		return err
	}
	return c.Print(raw, func(w io.Writer) {
		output.Fields(w, raw, "id", "state", "event_type", "event_id", "subscription_id", "account_id", "target_url", "created_at", "next_at")
		fmt.Fprintf(w, "body\t%s\n", output.Plain(delivery.Body))
		for _, t := range delivery.Tries {
			mark := ""
			if t.ID == c.args[0] {
				mark = "  <- this"
			}
			fmt.Fprintf(w, "try %d\t%s  %s%s\n", t.Number, t.StartedAt.UTC().Format(time.RFC3339), output.Plain(t.Result()), mark)
			for _, name := range slices.Sorted(maps.Keys(t.RequestHeaders)) {
				fmt.Fprintf(w, "\t%s: %s\n", output.Plain(name), output.Plain(t.RequestHeaders[name]))
			}
			if t.ResponseExcerpt != "" {
				fmt.Fprintf(w, "\tanswer: %s\n", output.Plain(t.ResponseExcerpt))
			}
		}
	})
}

func defineDeliveriesRecover(flags *pflag.FlagSet) handler {
	since := flags.String("since", "24h", "`TIME`: RFC 3339, or a duration before now; needed with --all")
	until := flags.String("until", "", "only of events before this `TIME`, likewise")
	all := flags.Bool("all", false, "of every subscription, in place of WEBHOOK")
	return func(ctx context.Context, c *invocation) error {
		switch {
		case *all == (len(c.args) > 0):
			return misused(c.cmd, "give either a WEBHOOK or --all")
		case *all && !flags.Changed("since"):
			return misused(c.cmd, "--all needs --since")
		}
		var in adminapi.Recovery
		for name, field := range map[string]struct {
			text string
			into **string
		}{"since": {*since, &in.Since}, "until": {*until, &in.Until}} {
			if field.text == "" && !flags.Changed(name) {
				continue
			}
			at, err := timeOrAge(c.cmd, name, field.text)
			if err != nil {
				return err
			}
			*field.into = new(at.UTC().Format(time.RFC3339Nano))
		}
		path := "/deliveries/recover"
		if !*all {
			path = c.path("/webhooks/%s/recover")
		}
		return recoverDeliveries(ctx, c, path, in)
	}
}

// recoverDeliveries asks at a path until all deliveries are queued again.
func recoverDeliveries(ctx context.Context, c *invocation, path string, in adminapi.Recovery) error {
	var total struct {
		Queued int `json:"queued"`
	}
	for {
		var done adminapi.Recovered
		err := c.admin.Call(ctx, http.MethodPost, path, in, &done)
		switch {
		case err != nil && total.Queued > 0:
			return fmt.Errorf("after %d deliveries were queued: %w", total.Queued, err)
		case err != nil:
			return err
		}
		total.Queued += done.Queued
		if done.NextCursor == "" {
			break
		}
		in.Cursor = new(string(done.NextCursor))
	}
	return c.Value(total, func(w io.Writer) { fmt.Fprintf(w, "queued\t%d\n", total.Queued) })
}

func tailDeliveries(ctx context.Context, c *invocation) error {
	colours := output.ColoursOf(c.Out)
	return c.admin.Follow(ctx, "/deliveries/tail", func(e adminapi.Event) error {
		if c.JSON {
			return output.WriteJSON(c.Out, e.Data)
		}
		var t adminapi.Tried
		if err := json.Unmarshal(e.Data, &t); err != nil {
			return err
		}
		paint := colours.Bad
		switch t.State {
		case "delivered":
			paint = colours.Good
		case "pending":
			paint = colours.Wait
		}
		_, err := fmt.Fprintf(c.Out, "%s  %s  %s  %s  %s  %s\n", colours.Faint(t.Try.StartedAt.Local().Format(time.TimeOnly)),
			paint(fmt.Sprintf("%-9s", output.Plain(t.State))), output.Plain(t.EventType), output.Plain(t.EventID), output.Plain(t.TargetURL), output.Plain(t.Try.Result()))
		return err
	}, reconnecting(c.stderr))
}

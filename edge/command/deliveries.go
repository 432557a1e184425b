package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

func deliveriesOperations() []operation {
	return []operation{
		{name: "list", summary: "list the log of a subscription or of an event, newest first", flags: func(o *operators) {
			o.text("webhook", "", "`ID` of the subscription")
			o.text("event", "", "`ID` of the event")
			o.text("outcome", "", "only those of this `OUTCOME`: pending, delivered, failed, cancelled or refused")
			o.Int("limit", 50, "most `NUMBER` of deliveries; 0: all")
		}, run: listDeliveries},
		{name: "show", args: "DELIVERY", summary: "show a delivery with its tries", run: showDelivery},
		{name: "retry", args: "DELIVERY", summary: "have a delivery tried at once", run: func(ctx context.Context, o *operators) error {
			return o.one(ctx, http.MethodPost, "/deliveries/"+url.PathEscape(o.args[0])+"/retry", nil, "id", "state", "attempts", "next_at")
		}},
		{name: "recover", args: "WEBHOOK", summary: "queue again what failed of a subscription since a time", flags: func(o *operators) {
			o.text("since", "24h", "`TIME`: RFC 3339, or a duration before now")
		}, run: recoverDeliveries},
		{name: "tail", summary: "follow the tries of an origin as they end", run: tailDeliveries},
	}
}

func listDeliveries(ctx context.Context, o *operators) error {
	hook, event := o.value("webhook"), o.value("event")
	path := "/events/" + url.PathEscape(event) + "/deliveries"
	query := url.Values{}
	switch {
	case hook == "" && event == "":
		return usagef(o.hint(), "deliveries list: --webhook or --event is missing")
	case hook != "":
		path = "/webhooks/" + url.PathEscape(hook) + "/deliveries"
		if event != "" {
			query.Set("event_id", event)
		}
	}
	if outcome := o.value("outcome"); outcome != "" {
		query.Set("outcome", outcome)
	}
	limit := flagValue[int](o, "limit")
	if limit < 0 {
		return usagef(o.hint(), "deliveries list: --limit must not be negative")
	}
	return o.list(ctx, path, query, limit, "id", "state", "attempts", "event_type", "event_id", "subscription_id", "created_at", "next_at")
}

func showDelivery(ctx context.Context, o *operators) error {
	var raw json.RawMessage
	if err := o.admin.call(ctx, http.MethodGet, "/deliveries/"+url.PathEscape(o.args[0]), nil, &raw); err != nil {
		return err
	}
	var record map[string]any
	var tries struct {
		Tries []triedLine `json:"tries"`
	}
	if err := json.Unmarshal(raw, &record); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &tries); err != nil {
		return err
	}
	return o.print(raw, func(w io.Writer) error {
		for _, c := range []string{"id", "state", "event_type", "event_id", "subscription_id", "account_id", "created_at", "next_at"} {
			fmt.Fprintf(w, "%s\t%s\n", c, cell(record, c))
		}
		for _, t := range tries.Tries {
			fmt.Fprintf(w, "try %d\t%s\n", t.Number, t.text())
		}
		return nil
	})
}

// triedLine is a try, as the admin API shows it.
type triedLine struct {
	ID        string    `json:"id"`
	Number    int       `json:"number"`
	StartedAt time.Time `json:"started_at"`
	LatencyMS float64   `json:"latency_ms"`
	Status    *int      `json:"status"`
	Error     string    `json:"error"`
}

func (t triedLine) text() string { return t.StartedAt.UTC().Format(time.RFC3339) + "  " + t.answer() }

func (t triedLine) answer() string {
	text := fmt.Sprintf("no answer after %.0f ms", t.LatencyMS)
	if t.Status != nil {
		text = fmt.Sprintf("%d after %.0f ms", *t.Status, t.LatencyMS)
	}
	if t.Error != "" {
		text += ": " + t.Error
	}
	return text
}

func recoverDeliveries(ctx context.Context, o *operators) error {
	since, err := time.Parse(time.RFC3339, o.value("since"))
	if err != nil {
		before, err := time.ParseDuration(o.value("since"))
		if err != nil || before < 0 {
			return usagef(o.hint(), "deliveries recover: --since %q is neither a time such as 2026-01-31T12:00:00Z nor a duration such as 24h", o.value("since"))
		}
		since = time.Now().Add(-before)
	}
	return o.one(ctx, http.MethodPost, "/webhooks/"+url.PathEscape(o.args[0])+"/recover",
		map[string]string{"since": since.UTC().Format(time.RFC3339Nano)}, "queued")
}

func tailDeliveries(ctx context.Context, o *operators) error {
	show := coloursOf(o.out)
	return o.admin.follow(ctx, "/deliveries/tail", func(s streamed) error {
		if o.json {
			_, err := fmt.Fprintf(o.out, "%s\n", s.data)
			return err
		}
		var t struct {
			SubscriptionID string    `json:"subscription_id"`
			TargetURL      string    `json:"target_url"`
			EventID        string    `json:"event_id"`
			EventType      string    `json:"event_type"`
			State          string    `json:"state"`
			NextAt         time.Time `json:"next_at"`
			Try            triedLine `json:"try"`
		}
		if err := json.Unmarshal(s.data, &t); err != nil {
			return err
		}
		paint := map[string]func(string) string{"delivered": show.good, "pending": show.wait}[t.State]
		if paint == nil {
			paint = show.bad
		}
		_, err := fmt.Fprintf(o.out, "%s  %s  %s  %s  %s  %s\n", show.faint(t.Try.StartedAt.Local().Format(time.TimeOnly)),
			paint(fmt.Sprintf("%-9s", t.State)), t.EventType, t.EventID, t.TargetURL, cmp.Or(t.Try.answer(), "-"))
		return err
	}, o.lost)
}

// lost says on standard error that a stream ended.
func (o *operators) lost(err error, wait time.Duration) {
	fmt.Fprintf(o.stderr, "edge: %v; trying again in %s\n", err, wait)
}

package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/output"
	"partneredge/edge/webhook"
	"partneredge/edge/webhook/signature"
)

func newListen() *cobra.Command {
	return newAdminCommand("listen [--events TYPES] [--forward URL]", "show an account's events here, signed and verified, and forward them", defineListen)
}

func defineListen(flags *pflag.FlagSet) handler {
	flags.Lookup("json").Usage = "print JSON, one object a line"
	account := flags.String("account", "", "`ID` of the account (default: that of the edge dev of --data)")
	events := flags.String("events", "", "event `TYPES` by comma (default all)")
	since := flags.Duration("since", 0, "begin with the events of this `DURATION` before now, 1h at most")
	l := &listener{seen: make(map[string]bool)}
	flags.StringVar(&l.forward, "forward", "", "`URL` that each event is posted to, such as http://localhost:3000/hook")
	var secret secretFlags
	secret.register(flags)
	return func(ctx context.Context, c *invocation) error {
		l.invocation, l.colours = c, output.ColoursOf(c.Out)
		if l.forward != "" && !isHTTP(l.forward) {
			return misused(c.cmd, "--forward %q is no address such as http://localhost:3000/hook", l.forward)
		}
		if *since < 0 || *since > time.Hour {
			return misused(c.cmd, "--since must be from 0 to 1h")
		}
		if data := c.cmd.Flag("data").Value.String(); *account == "" && data != "" {
			var dev devReady
			_ = readJSON(filepath.Join(data, "dev.json"), &dev) // an origin alone has none
			*account = dev.AccountID
		}
		if *account == "" {
			return misused(c.cmd, "--account is missing")
		}
		var err error
		if l.secret, err = secret.get(c.cmd); err != nil {
			return err
		}
		query := url.Values{}
		if *events != "" {
			query.Set("types", *events)
		}
		if *since > 0 {
			query.Set("since", time.Now().Add(-*since).UTC().Format(time.RFC3339Nano))
		}
		return l.run(ctx, *account, query)
	}
}

// listener relays an account's events to a developer's own machine.
type listener struct {
	*invocation
	colours output.Colours
	secret  namedSecret
	forward string // "": the events are only shown
	poster  *poster
	seen    map[string]bool // ids of events
}

func (l *listener) run(ctx context.Context, account string, query url.Values) error {
	l.poster = newPoster()
	defer l.poster.close()
	fmt.Fprintf(l.stderr, "events of %s, forwarded to %s\nsigning secret: %s\nCtrl-C ends it.\n",
		account, cmp.Or(l.forward, "nowhere: --forward URL posts them"), l.secret.text)
	path := "/accounts/" + url.PathEscape(account) + "/events"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return l.admin.Follow(ctx, path, func(e adminapi.Event) error { return l.handle(ctx, e) }, reconnecting(l.stderr))
}

// relayed is an event in the output.
type relayed struct {
	At       time.Time       `json:"at"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Verified bool            `json:"verified"`
	Status   *int            `json:"status"` // of the forward; null without an answer
	Latency  float64         `json:"latency_ms"`
	Error    string          `json:"error,omitempty"`
	Body     json.RawMessage `json:"body"`
}

// handle signs an event as a delivery, verifies that as a receiver does, and
// forwards it.
func (l *listener) handle(ctx context.Context, e adminapi.Event) error {
	if l.seen[e.ID] { // a stream that goes on may repeat some
		return nil
	}
	if len(l.seen) >= 100_000 { // a stream repeats no event that old
		clear(l.seen)
	}
	l.seen[e.ID] = true
	m := webhook.Message{EventID: e.ID, EventType: e.Name, Body: e.Data}
	t := newTry(m, l.secret.text)
	h := relayed{At: t.at.UTC(), ID: e.ID, Type: e.Name, Body: e.Data}
	h.Verified = signature.Verify(t.headers[strings.ToLower(signature.Header)], e.Data, signature.DefaultTolerance, t.at, l.secret.text) == nil
	if l.forward != "" {
		done := l.poster.post(ctx, l.forward, m, t)
		h.Status, h.Latency, h.Error = done.Status, done.milliseconds(), done.Error
		if ctx.Err() != nil {
			return nil
		}
	}
	if l.JSON {
		raw, err := json.Marshal(h)
		if err != nil {
			return err
		}
		return output.WriteJSON(l.Out, raw)
	}
	return l.show(h)
}

func (l *listener) show(h relayed) error {
	verified := l.colours.Good("verified")
	if !h.Verified {
		verified = l.colours.Bad("not verified")
	}
	forwarded := ""
	switch {
	case h.Status != nil:
		paint := l.colours.Bad
		if *h.Status/100 == 2 {
			paint = l.colours.Good
		}
		forwarded = fmt.Sprintf("  %s in %.0f ms", paint(strconv.Itoa(*h.Status)), h.Latency)
	case h.Error != "":
		forwarded = "  " + l.colours.Bad(output.Plain(h.Error))
	}
	_, err := fmt.Fprintf(l.Out, "%s  %s  %s  %s%s\n  %s\n", l.colours.Faint(h.At.Local().Format(time.TimeOnly)), output.Plain(h.Type), output.Plain(h.ID), verified, forwarded,
		l.colours.Faint(output.Plain(string(h.Body))))
	return err
}

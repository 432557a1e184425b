package command

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/localwebhook"
	"partneredge/edge/output"
	"partneredge/edge/webhook"
	"partneredge/store/durable"
)

func newListen() *cobra.Command {
	return newAdminCommand("listen [--events TYPES] [--forward URL]", "show an account's events here, signed and verified, and forward them", defineListen)
}

func defineListen(flags *pflag.FlagSet) handler {
	flags.Lookup("json").Usage = "print JSON, one object a line"
	account := flags.String("account", "", "`ID` of the account (default: that of the edge dev of --data)")
	events := flags.String("events", "", "event `TYPES` by comma (default all)")
	since := flags.Duration("since", 0, "begin with the events of this `DURATION` before now, 1h at most")
	l := &eventListener{}
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
			var ready devReady
			_ = durable.ReadJSON(filepath.Join(data, "dev.json"), &ready) // an origin alone has none
			*account = ready.AccountID
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

// eventListener shows an account's events on a developer's own machine.
type eventListener struct {
	*invocation
	colours output.Colours
	secret  namedSecret
	forward string // "": the events are only shown
}

func (l *eventListener) run(ctx context.Context, account string, query url.Values) error {
	relay := localwebhook.NewRelay(l.secret.text, l.forward)
	defer relay.Close()
	fmt.Fprintf(l.stderr, "events of %s, forwarded to %s\nsigning secret: %s\nCtrl-C ends it.\n",
		account, cmp.Or(l.forward, "nowhere: --forward URL posts them"), l.secret.text)
	path := "/accounts/" + url.PathEscape(account) + "/events"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return l.admin.Follow(ctx, path, func(e adminapi.Event) error {
		h, known := relay.Handle(ctx, webhook.Message{EventID: e.ID, EventType: e.Name, Body: e.Data})
		if known || l.forward != "" && ctx.Err() != nil {
			return nil
		}
		return l.show(h)
	}, reconnecting(l.stderr))
}

func (l *eventListener) show(h localwebhook.Relayed) error {
	if l.JSON {
		return l.Value(h, nil)
	}
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

package command

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/command/output"
	"partneredge/edge/webhook/signature"
	"partneredge/store"
)

// forwardTime bounds the wait for a receiver's answer.
const forwardTime = 10 * time.Second

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
	flags.StringVar(&l.secret, "secret", "", "`TEXT` of the signing secret (default: a new one, printed at the start)")
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
	secret  string // "": run makes one
	forward string // "": the events are only shown
	http    *http.Client
	seen    map[string]bool // ids of events
}

func (l *listener) run(ctx context.Context, account string, query url.Values) error {
	if l.secret == "" {
		var random [32]byte
		_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
		l.secret = hex.EncodeToString(random[:])
	}
	l.http = newForwardClient()
	defer l.http.CloseIdleConnections()
	fmt.Fprintf(l.stderr, "events of %s, forwarded to %s\nsigning secret: %s\nCtrl-C ends it.\n",
		account, cmp.Or(l.forward, "nowhere: --forward URL posts them"), l.secret)
	path := "/accounts/" + url.PathEscape(account) + "/events"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return l.admin.Follow(ctx, path, func(e adminapi.Event) error { return l.handle(ctx, e) }, reconnecting(l.stderr))
}

// newForwardClient makes a client that posts as the webhook sender does: it does
// not follow redirects, and asks no proxy.
func newForwardClient() *http.Client {
	return &http.Client{
		Timeout:       forwardTime,
		Transport:     &http.Transport{Proxy: nil, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
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
	at := time.Now()
	req, err := l.request(ctx, e, at)
	if err != nil {
		return err
	}
	h := relayed{At: at.UTC(), ID: e.ID, Type: e.Name, Body: e.Data}
	err = signature.Verify(req.Header.Get(signature.Header), e.Data, signature.DefaultTolerance, at, l.secret)
	h.Verified = err == nil
	if l.forward != "" {
		l.post(req, &h)
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

// request returns the request of a delivery, with the headers of the contract.
func (l *listener) request(ctx context.Context, e adminapi.Event, at time.Time) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(l.forward, "http://localhost/"), bytes.NewReader(e.Data))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Svc-Webhooks/2",
		signature.Header: signature.Sign(at, e.Data, l.secret), "X-Svc-Timestamp": strconv.FormatInt(at.Unix(), 10),
		"X-Svc-Event": e.Name, "X-Svc-Event-Id": e.ID, "X-Svc-Delivery-Id": store.NewID("dlv", at),
	} {
		req.Header.Set(name, value)
	}
	return req, nil
}

func (l *listener) post(req *http.Request, h *relayed) {
	began := time.Now()
	resp, err := l.http.Do(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // so that the connection is used again
		resp.Body.Close()
		h.Status = &resp.StatusCode
	} else {
		h.Error = withoutURL(err)
	}
	h.Latency = float64(time.Since(began).Microseconds()) / 1000
}

// withoutURL describes an error of a request without the method and the URL that
// it begins with.
func withoutURL(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		if of.Timeout() && !errors.Is(err, os.ErrDeadlineExceeded) {
			return "no answer within " + forwardTime.String()
		}
		return of.Err.Error()
	}
	return err.Error()
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

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

	"partneredge/edge/webhook/signature"
	"partneredge/store"
)

// forwardTime is how long a receiver has to answer.
const forwardTime = 10 * time.Second

// listener relays an account's events to a developer's own machine.
type listener struct {
	out, stderr io.Writer
	show        colours
	json        bool
	secret      string
	forward     string // "": only shown
	client      *http.Client
	seen        map[string]bool
	now         func() time.Time
}

func runListen(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags("listen", "edge listen [--events TYPES] [--forward URL] [flags]", stderr)
	address := f.String("admin", "", "`URL` of the origin's admin API (default $EDGE_ADMIN_URL)")
	tokenFile := f.String("token-file", "", "`FILE` with an admin token (default $EDGE_ADMIN_TOKEN_FILE)")
	data := f.String("data", "", "`DIR` of an `edge dev` or `edge origin` that runs here, in place of --admin and --token-file")
	account := f.String("account", "", "`ID` of the account (default: that of the edge dev of --data)")
	events := f.String("events", "", "event `TYPES` by comma (default all)")
	since := f.Duration("since", 0, "begin with the events of this `DURATION` before now, 1h at most")
	l := &listener{out: stdout, stderr: stderr, show: coloursOf(stdout), seen: make(map[string]bool), now: time.Now}
	f.StringVar(&l.forward, "forward", "", "`URL` that each event is posted to, such as http://localhost:3000/hook")
	f.StringVar(&l.secret, "secret", "", "`TEXT` of the signing secret (default: a new one, printed at the start)")
	f.BoolVar(&l.json, "json", false, "print JSON, one object a line")
	if err := f.parse(args); err != nil {
		return err
	}
	if u, err := url.Parse(l.forward); l.forward != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return usagef(f.hint(), "listen: --forward %q is no address such as http://localhost:3000/hook", l.forward)
	}
	if *since < 0 || *since > time.Hour {
		return usagef(f.hint(), "listen: --since must be from 0 to 1h")
	}
	admin, err := findAdmin(*data, *address, *tokenFile)
	if err != nil {
		return err
	}
	if *account == "" {
		var dev devReady
		if *data == "" || readJSON(filepath.Join(*data, "dev.json"), &dev) != nil {
			return usagef(f.hint(), "listen: --account is missing")
		}
		*account = dev.AccountID
	}
	if l.secret == "" {
		var random [32]byte
		_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
		l.secret = hex.EncodeToString(random[:])
	}
	l.client = newForwardClient()
	defer l.client.CloseIdleConnections()
	l.greet(*account)
	query := url.Values{}
	if *events != "" {
		query.Set("types", *events)
	}
	if *since > 0 {
		query.Set("since", time.Now().Add(-*since).UTC().Format(time.RFC3339Nano))
	}
	path := "/accounts/" + url.PathEscape(*account) + "/events"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return adminHint(admin.follow(ctx, path, func(s streamed) error { return l.event(ctx, s) }, l.lost))
}

// newForwardClient posts as the webhook sender does: a redirect is an answer,
// and no proxy is asked.
func newForwardClient() *http.Client {
	return &http.Client{
		Timeout:       forwardTime,
		Transport:     &http.Transport{Proxy: nil, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (l *listener) greet(account string) {
	to := cmp.Or(l.forward, "nowhere: --forward URL posts them")
	fmt.Fprintf(l.stderr, "events of %s, forwarded to %s\nsigning secret: %s\nCtrl-C ends it.\n", account, to, l.secret)
}

func (l *listener) lost(err error, wait time.Duration) {
	fmt.Fprintf(l.stderr, "edge: %v; trying again in %s\n", err, wait)
}

// heard is an event as it is shown.
type heard struct {
	At       time.Time       `json:"at"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Verified bool            `json:"verified"`
	Status   *int            `json:"status"` // of the forward; null without an answer
	Latency  float64         `json:"latency_ms"`
	Error    string          `json:"error,omitempty"`
	Body     json.RawMessage `json:"body"`
}

// event signs an event as a delivery is, verifies that as a receiver does, and
// forwards it.
func (l *listener) event(ctx context.Context, s streamed) error {
	if l.seen[s.id] { // a stream that goes on may repeat some
		return nil
	}
	if len(l.seen) >= 100_000 { // long ago
		clear(l.seen)
	}
	l.seen[s.id] = true
	at := l.now()
	req, err := l.request(ctx, s, at)
	if err != nil {
		return err
	}
	h := heard{At: at.UTC(), ID: s.id, Type: s.name, Body: s.data}
	err = signature.Verify(req.Header.Get(signature.Header), s.data, signature.DefaultTolerance, at, l.secret)
	h.Verified = err == nil
	if l.forward != "" {
		l.post(req, &h)
		if ctx.Err() != nil {
			return nil
		}
	}
	if l.json {
		return json.NewEncoder(l.out).Encode(h)
	}
	return l.print(h)
}

// request carries the headers of the contract.
func (l *listener) request(ctx context.Context, s streamed, at time.Time) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(l.forward, "http://localhost/"), bytes.NewReader(s.data))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Svc-Webhooks/2",
		signature.Header: signature.Sign(at, s.data, l.secret), "X-Svc-Timestamp": strconv.FormatInt(at.Unix(), 10),
		"X-Svc-Event": s.name, "X-Svc-Event-Id": s.id, "X-Svc-Delivery-Id": store.NewID("dlv", at),
	} {
		req.Header.Set(name, value)
	}
	return req, nil
}

func (l *listener) post(req *http.Request, h *heard) {
	began := time.Now()
	resp, err := l.client.Do(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // so that the connection is used again
		resp.Body.Close()
		h.Status = &resp.StatusCode
	} else {
		h.Error = plainly(err)
	}
	h.Latency = float64(time.Since(began).Microseconds()) / 1000
}

// plainly is an error without the request that it names first.
func plainly(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		if of.Timeout() && !errors.Is(err, os.ErrDeadlineExceeded) {
			return "no answer within " + forwardTime.String()
		}
		return of.Err.Error()
	}
	return err.Error()
}

func (l *listener) print(h heard) error {
	verified := l.show.good("verified")
	if !h.Verified {
		verified = l.show.bad("not verified")
	}
	forwarded := ""
	switch {
	case h.Status != nil:
		paint := l.show.bad
		if *h.Status/100 == 2 {
			paint = l.show.good
		}
		forwarded = fmt.Sprintf("  %s in %.0f ms", paint(strconv.Itoa(*h.Status)), h.Latency)
	case h.Error != "":
		forwarded = "  " + l.show.bad(h.Error)
	}
	_, err := fmt.Fprintf(l.out, "%s  %s  %s  %s%s\n  %s\n", l.show.faint(h.At.Local().Format(time.TimeOnly)), h.Type, h.ID, verified, forwarded,
		l.show.faint(string(h.Body)))
	return err
}

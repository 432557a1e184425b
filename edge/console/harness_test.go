package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/adminapi"
	"partneredge/edge/console"
	"partneredge/edge/origin"
	"partneredge/edge/origin/listener"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/centraltest/sqlitetest"
	"partneredge/store/central/deliveries"
	"partneredge/store/logtest"
)

// schema is the database that every origin starts with.
var schema = sqlitetest.Template{Migrations: "../../store/central/migrations"}

// fixture is an origin with its console, and records to show.
type fixture struct {
	*testing.T
	*origin.Origin
	db      *central.DB
	api     *adminapi.Client
	account store.Account
	webhook store.Subscription
	logs    *logtest.Buffer
	asked   *logtest.Buffer // what the console asked the admin API, one request a line
	// hold, if not nil, may keep a request of the console to the admin API waiting.
	hold atomic.Pointer[func(*http.Request)]
}

type openGuard struct{}

func (openGuard) Check(context.Context, string) (string, error) { return "", nil }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := newEmptyFixture(t)
	f.addRecords()
	return f
}

// newEmptyFixture starts an origin without records.
func newEmptyFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, logs: new(logtest.Buffer), asked: new(logtest.Buffer)}
	log := slog.New(slog.NewTextHandler(f.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	dir := t.TempDir()
	var err error
	if f.db, err = central.Open(t.Context(), central.Config{URL: schema.Copy(t, filepath.Join(dir, "central.db"))}); err != nil {
		t.Fatal(err)
	}
	f.Origin, err = origin.Start(t.Context(), origin.Config{
		Dir: dir, DB: f.db, Guard: openGuard{}, Log: log, HandshakeTimeout: 5 * time.Minute, // on a busy machine
		Console: func(api http.Handler) (listener.Console, error) {
			return console.New(console.Config{Log: log, API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = fmt.Fprintln(f.asked, r.Method, r.URL.RequestURI())
				if hold := f.hold.Load(); hold != nil {
					(*hold)(r)
				}
				api.ServeHTTP(w, r)
			})})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := f.db.Close(); err != nil {
			t.Error(err)
		}
	})
	f.api = &adminapi.Client{URL: f.AdminURL(), Token: f.Token()}
	return f
}

// deliveries lists the ids of the deliveries to the subscription, the newest first.
func (f *fixture) deliveries() (ids []string) {
	f.Helper()
	found, _, err := f.db.Deliveries(f.Context(), deliveries.Filter{SubscriptionID: f.webhook.ID}, store.Page{})
	if err != nil || len(found) == 0 {
		f.Fatal(found, err)
	}
	for _, d := range found {
		ids = append(ids, d.ID)
	}
	return ids
}

// eventOf returns the event of a delivery.
func (f *fixture) eventOf(delivery string) string {
	f.Helper()
	d, err := f.db.Delivery(f.Context(), delivery)
	if err != nil {
		f.Fatal(err)
	}
	return d.EventID
}

// tryDelivery has the newest delivery tried twice, to no avail, and returns the id of
// the second try.
func (f *fixture) tryDelivery() string {
	f.Helper()
	of := f.deliveries()[0]
	id := store.NewAttemptID(of, time.Now())
	for number, a := range []store.Attempt{
		{ID: store.NewAttemptID(of, time.Now()), Error: "no answer within 10s"},
		{ID: id, Status: 503, Excerpt: "<b>busy</b>", Headers: map[string]string{"x-svc-delivery-id": id, "x-svc-signature": "t=1,v1=" + strings.Repeat("5e", 32)}},
	} {
		a.DeliveryID, a.Number, a.StartedAt, a.Latency = of, number+1, time.Now(), 12*time.Millisecond
		o := deliveries.Outcome{SubscriptionID: f.webhook.ID, State: store.StatePending, NextAt: time.Now().Add(time.Hour), Attempt: a}
		if number == 1 {
			o.State, o.NextAt = store.StateDead, time.Time{}
		}
		if err := f.db.RecordOutcomes(f.Context(), []deliveries.Outcome{o}); err != nil {
			f.Fatal(err)
		}
	}
	return id
}

// addRecords makes an account with a subscription and deliveries of it.
func (f *fixture) addRecords() {
	f.Helper()
	ctx := f.Context()
	var err error
	if f.account, err = f.db.CreateAccount(ctx, store.Account{
		Name: "Harbor Realty <& Söhne>", Mode: store.ModeLive, Agent: store.Agent{Email: "ana@example.com", FullName: "Ana Silva"},
	}); err != nil {
		f.Fatal(err)
	}
	f.webhook = store.Subscription{
		ID: store.NewID("whs", time.Now()), AccountID: f.account.ID, KeyID: "key_x", Environment: store.Live,
		TargetURL: "https://hooks.example.com/partner-edge/inbound", Events: []string{store.EventClientContacted}, Secret: strings.Repeat("5e", 32),
	}
	if err := f.db.AddSubscription(ctx, f.webhook); err != nil {
		f.Fatal(err)
	}
	for range 3 {
		if _, _, err := f.db.AddContact(ctx, store.Contact{AccountID: f.account.ID, ClientID: "c", Channel: "sms"}); err != nil {
			f.Fatal(err)
		}
	}
}

// refuse has a lead quarantined, and returns the id of the entry.
func (f *fixture) refuse(lead string) string {
	f.Helper()
	body := `{"id":"` + lead + `","account_id":"` + f.account.ID + `","environment":"live","first_name":"Ana <b>","email":"ana@example.com","consent_status":"none","captured_at":"1900-01-01T00:00:00Z"}`
	if _, err := f.db.AddLeads(f.Context(), "node_x", []central.OfferedLead{central.ReadLead("", []byte(body))}); err != nil {
		f.Fatal(err)
	}
	waiting, _, err := f.db.QuarantinedLeads(f.Context(), store.Span{}, store.Page{Limit: 1})
	if err != nil || len(waiting) != 1 {
		f.Fatal(waiting, err)
	}
	return waiting[0].ID
}

// token makes a token by the admin API.
func (f *fixture) token(role string) (id, plaintext string) {
	f.Helper()
	var made adminapi.MintedToken
	f.call("POST", "/tokens", adminapi.NewToken{Name: new("Kim of " + role), Role: &role}, &made)
	return made.Token.ID, made.Plaintext
}

func (f *fixture) call(method, path string, in, out any) {
	f.Helper()
	if err := f.api.Call(f.Context(), method, path, in, out); err != nil {
		f.Fatal(err)
	}
}

// startNode enrols a node of a region that reports traffic to the origin until
// the test ends.
func (f *fixture) startNode(region string, perSecond uint64) {
	f.Helper()
	f.startServing(region, perSecond, &wire.ReleaseStatus{})
}

// answerRequests has a node answer from a log with a request of each kind; asked, if
// not nil, judges each question.
func (f *fixture) answerRequests(conn *nats.Conn, node string, asked func(wire.RequestsRequest) bool) {
	f.Helper()
	log := []wire.AnsweredRequest{
		{ID: loggedRequest, At: time.Now(), TookUS: 1500, KeyID: "key_01kanq3v7yf4pss7c3kxq5d2aw", AccountID: f.account.ID, Method: "POST", Route: "/api/v2/public/leads", Status: 400, Code: "invalid_lead", Reason: "name_required"},
		{ID: "req_01kvj2t3m8f4tbxw6m0c2r9e5j", At: time.Now(), TookUS: 61, KeyID: "key_01kanq3v7yf4pss7c3kxq5d2aw", AccountID: f.account.ID, Method: "GET", Route: "/api/v2/public/agents/me", Status: 200},
		{ID: "req_01kvj2t3m8f4tbxw6m0c2r9e5k", At: time.Now(), TookUS: 2_000_000, Method: "GET", Status: 500, Code: "internal_error"},
	}
	if _, err := conn.Subscribe(wire.ToNode+node+"."+wire.VerbRequests, func(q *nats.Msg) {
		var req wire.RequestsRequest
		if err := wire.Decode(q.Data, &req); err != nil {
			f.Error(err)
		}
		reply := &wire.RequestsReply{}
		switch {
		case asked != nil && !asked(req):
		case req.ID == loggedRequest:
			reply.Requests = log[:1]
		case req.ID == "":
			reply.Requests = log
		}
		body, err := wire.Encode(reply)
		if err != nil {
			f.Error(err)
		}
		_ = q.Respond(body) // the origin may have ended
	}); err != nil {
		f.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		f.Fatal(err)
	}
}

// loggedRequest is the id of a request in the logs of nodes.
const loggedRequest = "req_01kvj2t3m8f4tbxw6m0c2r9e5h"

// shipped is the digest of the release that rollOut rolls out.
var shipped = "sha256:" + strings.Repeat("5e", 32)

// enrol enrols a node, and connects as it does.
func (f *fixture) enrol(name, region string) (conn *nats.Conn, id string) {
	f.Helper()
	made, err := f.api.EnrolNode(f.Context(), name, region)
	if err != nil {
		f.Fatal(err)
	}
	conn, err = nats.Connect(f.NATSURL(), nats.UserCredentialBytes([]byte(made.Credentials)),
		nats.CustomInboxPrefix(wire.Inbox(made.Node.ID)), nats.Timeout(time.Minute))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(conn.Close)
	return conn, made.Node.ID
}

// startServing is startNode for one that serves a release.
func (f *fixture) startServing(region string, perSecond uint64, release *wire.ReleaseStatus) {
	f.Helper()
	conn, id := f.enrol("Node of "+region, region)
	f.answerRequests(conn, id, nil)
	ctx, stop := context.WithCancel(context.Background())
	var reporting sync.WaitGroup
	reporting.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		sum := wire.Traffic{Latency: make([]uint64, wire.LatencyBuckets)}
		for n := uint64(0); ; n++ {
			rise := perSecond/5 + n%7
			sum.Requests += rise
			sum.Limited += rise / 20
			sum.Errors += n % 2
			sum.Latency[wire.LatencyBucket(time.Millisecond)] += rise - rise/20
			sum.Latency[wire.LatencyBucket(time.Duration(8+n%5)*time.Millisecond)] += rise / 20
			body, _ := json.Marshal(wire.Status{
				Head: wire.Head{V: wire.Version}, Region: region, Build: "v1.4.0", HotKeys: 812, Sandboxes: 24, Traffic: &sum,
				Running: release,
			})
			_ = conn.Publish(wire.Subject(id, wire.VerbStatus), body) // the origin may have ended
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	f.Cleanup(func() {
		stop()
		reporting.Wait()
	})
}

// rollOut begins to roll a release out to a region. No node of the test loads it.
func (f *fixture) rollOut(region string) (release store.Release) {
	f.Helper()
	release, _, err := f.db.AddRelease(f.Context(), store.Release{Version: "1.4.0", Digest: shipped})
	if err != nil {
		f.Fatal(err)
	}
	f.await("the rollout is begun", func() bool { // once the node has reported
		err := f.api.Call(f.Context(), "POST", "/releases/"+release.ID+"/promote", adminapi.NewRollout{Regions: []string{region}}, nil)
		if err != nil && !strings.Contains(err.Error(), "connected") {
			f.Fatal(err)
		}
		return err == nil
	})
	return release
}

// await polls for 3 minutes.
func (f *fixture) await(what string, done func() bool) {
	f.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); !done(); <-tick.C {
		if time.Now().After(deadline) {
			f.Fatalf("after 3 minutes still not: %s", what)
		}
	}
}

// browser is a client with cookies that follows redirects.
type browser struct {
	*fixture
	client http.Client
	csrf   string
}

var csrfField = regexp.MustCompile(`name="csrf" value="([0-9a-f]{64}|[A-Z2-7]{26})"`)

func (f *fixture) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		f.Fatal(err)
	}
	return &browser{fixture: f, client: http.Client{Jar: jar}}
}

// login logs in with a token.
func (f *fixture) login(token string) *browser {
	f.Helper()
	b := f.browser()
	b.get("login")
	if resp, text := b.post("login", url.Values{"token": {token}}); resp.Request.URL.Path != "/console/" {
		f.Fatalf("login led to %s: %s", resp.Request.URL, text)
	}
	return b
}

// get requests a page below /console/.
func (b *browser) get(path string) (*http.Response, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), "GET", b.AdminURL()+"/console/"+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	return b.do(req)
}

// live returns the first event of a page's stream.
func (b *browser) live(path string) string {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), "GET", b.AdminURL()+"/console/"+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var event strings.Builder
	for lines.Scan() && lines.Text() != "" {
		event.WriteString(lines.Text() + "\n")
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
	return event.String()
}

// post sends a form with the token of the last page.
func (b *browser) post(path string, form url.Values) (*http.Response, string) {
	b.Helper()
	if form == nil {
		form = url.Values{}
	}
	if !form.Has("csrf") {
		form.Set("csrf", b.csrf)
	}
	req, err := http.NewRequestWithContext(b.Context(), "POST", b.AdminURL()+"/console/"+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.do(req)
}

func (b *browser) do(req *http.Request) (*http.Response, string) {
	b.Helper()
	resp, err := b.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	if found := csrfField.FindSubmatch(text); found != nil {
		b.csrf = string(found[1])
	}
	return resp, string(text)
}

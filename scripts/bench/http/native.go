package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"partneredge/edge/gotuning"
	"partneredge/edge/node"
	"partneredge/store/local"
	"partneredge/store/ratelimit"
	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
	"partneredge/wasm/handlers/agents"
	"partneredge/wasm/handlers/coaching"
	"partneredge/wasm/handlers/leads"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/pipeline"
	"partneredge/wasm/route"
)

// serveNative serves the pipeline and the handlers that are measured in plain Go until
// ctx ends, by TLS if c names a certificate. It writes its hello to a file in dir.
// GOMAXPROCS, the garbage collector, the listener's limits and timeouts, the log and the
// metrics are set by the functions that set a node's.
func serveNative(ctx context.Context, dir string, c node.Config) error {
	state, err := local.Open(local.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { _ = state.Close() }()
	h, err := putKeys(state.Keys)
	if err != nil {
		return err
	}
	if err := putViews(state.Views); err != nil {
		return err
	}
	defer gotuning.Start(ctx)()
	c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	base, stop, err := node.ServeModules(c, nativeModules(state))
	if err != nil {
		return err
	}
	h.URL = base
	text, err := json.Marshal(h)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, readyFile), text, 0o600)
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, stop(context.WithoutCancel(ctx)))
}

const accountID = "acc_bench"

// putKeys makes the keys of the load, and returns a hello that names them.
func putKeys(keys *local.Replica) (h hello, err error) {
	record := abi.Key{
		AccountID: accountID, Environment: abi.EnvLive, Scopes: ^abi.Scopes(0),
		RateLimit: ratelimit.MaxLimit, Expires: time.Now().Add(time.Hour).UnixMicro(),
	}
	for i := range 2*keysInUse + 1 {
		into := &h.Live
		switch {
		case i == 2*keysInUse:
			into, record.Environment, record.RateLimit = &h.Slow, abi.EnvLive, slowLimit
		case i >= keysInUse:
			into, record.Environment = &h.Test, abi.EnvTest
		}
		key := apikey.Mint(record.Environment, &[apikey.RandomSize]byte{byte(i)})
		record.ID = fmt.Sprintf("key_bench_%d", i)
		if _, err := keys.Put(local.KeyName([]byte(key)), local.Record{Ref: record.ID, Frame: string(record.Append(nil))}, keys.Epoch()); err != nil {
			return h, err
		}
		*into = append(*into, key)
	}
	return h, nil
}

// putViews makes the account's profile and insights.
func putViews(views *local.Replica) error {
	profile := abi.Profile{
		AgentID: "agt_01h455vb4pex5vsknk084sn02q", Email: "dana@example.com", FullName: "Dana Reyes", Joined: 1_700_000_000_000_000,
		AccountID: "acc_01h455vb4pex5vsknk084sn02q", AccountName: "Reyes Realty", Mode: "live",
	}
	list := abi.Insights{History: true}
	for i := range insights {
		list.Items = append(list.Items, abi.Insight{
			ID: fmt.Sprintf("ins_01h455vb4pex5vsknk084sn0%02d", i), Headline: headline(i), Detail: detail, Created: profile.Joined + int64(insights-i),
		})
	}
	for name, frame := range map[string][]byte{profileName(accountID): profile.Append(nil), insightsName(accountID): list.Append(nil)} {
		if _, err := views.Put(name, local.Record{Ref: accountID, Frame: string(frame)}, views.Epoch()); err != nil {
			return err
		}
	}
	return nil
}

// nativeModules returns the pipeline and the handlers as functions of this process.
func nativeModules(state *local.Store) *httpfront.Modules {
	gate := pipeline.Pipeline{Routes: route.ContractTable()}
	return &httpfront.Modules{
		Gate: httpfront.Module{Headers: []string{"authorization"}, Caller: httpfront.Func(func(req *abi.Request, resp *abi.Response) {
			gate.Handle(req, resp, native{state, ""})
		})},
		Handlers: map[string]httpfront.Module{
			"agents": {Caller: httpfront.Func(func(req *abi.Request, resp *abi.Response) {
				agents.Handle(req, resp, native{state, req.Principal.AccountID})
			})},
			"coaching": {Caller: httpfront.Func(func(req *abi.Request, resp *abi.Response) {
				coaching.Handle(req, resp, native{state, req.Principal.AccountID})
			})},
			"leads": {Headers: []string{"idempotency-key"}, Caller: httpfront.Func(func(req *abi.Request, resp *abi.Response) {
				leads.Handle(req, resp, testOnly{})
			})},
		},
	}
}

// native is the host of the pipeline and of the handler.
type native struct {
	state   *local.Store
	account string
}

func (n native) Lockout(client string) (int64, error) {
	return n.state.Lockouts.Lockout(client).Milliseconds(), nil
}

func (n native) Failure(client string) (int64, error) {
	wait, err := n.state.Lockouts.Failure(client)
	return wait.Milliseconds(), err
}

func (n native) Key(token string) (key abi.Key, err error) {
	err = read(n.state.Keys, local.KeyName([]byte(token)), &key)
	return key, err
}

func (n native) Take(keyID string, limit int) (abi.Bucket, error) {
	bucket, _, err := n.state.Buckets.Take(keyID, limit)
	return bucket, err
}

func (n native) Profile() (p abi.Profile, err error) {
	err = read(n.state.Views, profileName(n.account), &p)
	return p, err
}

func (n native) Insights(since int64, limit int, into *abi.Insights) error {
	if err := read(n.state.Views, insightsName(n.account), into); err != nil {
		return err
	}
	last := 0
	for last < min(limit, len(into.Items)) && into.Items[last].Created > since {
		last++
	}
	into.Items = into.Items[:last]
	return nil
}

func (n native) Firings(int64, int, *abi.Firings) error { return abi.CodeDenied }

// testOnly is the outbox of test keys: no lead gets there.
type testOnly struct{}

func (testOnly) Lead(*abi.Lead) error                 { return abi.CodeDenied }
func (testOnly) LeadOnce(*abi.Once) (abi.Kept, error) { return abi.Kept{}, abi.CodeDenied }

// Names of an account's views.
func profileName(account string) string  { return "profile/" + account }
func insightsName(account string) string { return "insights/" + account }

func read(records *local.Replica, name string, into interface{ Parse([]byte) error }) error {
	record, ok := records.Get(name)
	if !ok {
		return abi.CodeNotFound
	}
	if err := into.Parse([]byte(record.Frame)); err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	return nil
}

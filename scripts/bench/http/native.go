package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"partneredge/edge/gotuning"
	"partneredge/edge/node"
	"partneredge/store/local"
	"partneredge/store/ratelimit"
	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
	"partneredge/wasm/handlers/agents"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/pipeline"
	"partneredge/wasm/route"
)

// serveNative serves the pipeline and the agents handler in plain Go until ctx
// ends. It writes its hello to a file in dir. GOMAXPROCS, the garbage collector, the
// listener's limits and timeouts, the log and the metrics are set by the functions
// that set a node's.
func serveNative(ctx context.Context, dir string) error {
	state, err := local.Open(local.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { _ = state.Close() }()
	record := abi.Key{
		AccountID: "acc_bench", Environment: abi.EnvLive, Scopes: ^abi.Scopes(0),
		RateLimit: ratelimit.MaxLimit, Expires: time.Now().Add(time.Hour).UnixMicro(),
	}
	profile := abi.Profile{
		AgentID: "agt_01h455vb4pex5vsknk084sn02q", Email: "dana@example.com", FullName: "Dana Reyes", Joined: 1_700_000_000_000_000,
		AccountID: "acc_01h455vb4pex5vsknk084sn02q", AccountName: "Reyes Realty", Mode: "live",
	}
	var keys []string
	for i := range keysInUse {
		key := apikey.Mint(abi.EnvLive, &[apikey.RandomSize]byte{byte(i)})
		record.ID = fmt.Sprintf("key_bench_%d", i)
		if _, err := state.Keys.Put(local.KeyName([]byte(key)), local.Record{Ref: record.ID, Frame: string(record.Append(nil))}); err != nil {
			return err
		}
		keys = append(keys, key)
	}
	if _, err := state.Views.Put(record.AccountID, local.Record{Ref: record.AccountID, Frame: string(profile.Append(nil))}); err != nil {
		return err
	}

	gate := pipeline.Pipeline{Routes: route.ContractTable()}
	set := &httpfront.Modules{
		Gate: httpfront.Module{Headers: []string{"authorization"}, Caller: httpfront.Func(func(req *abi.Request, resp *abi.Response) {
			gate.Handle(req, resp, native{state, ""})
		})},
		Handlers: map[string]httpfront.Module{"agents": {Caller: httpfront.Func(func(req *abi.Request, resp *abi.Response) {
			agents.Handle(req, resp, native{state, req.Principal.AccountID})
		})}},
	}
	defer gotuning.Start(ctx)()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	base, stop, err := node.ServeModules(node.Config{Log: log}, set)
	if err != nil {
		return err
	}
	text, err := json.Marshal(hello{Addr: strings.TrimPrefix(base, "http://"), Keys: keys})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, readyFile), text, 0o600)
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, stop(context.WithoutCancel(ctx)))
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
	err = read(n.state.Views, n.account, &p)
	return p, err
}

func (n native) Insights(int64, int, *abi.Insights) error { return abi.CodeDenied }
func (n native) Firings(int64, int, *abi.Firings) error   { return abi.CodeDenied }

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

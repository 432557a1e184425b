package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"partneredge/edge/origin/natsauth"
	"partneredge/edge/wire"
	"partneredge/scripts/bench/harness"
)

const (
	pushChanges = 10_000
	pushBatch   = 5000 // changes in a message
)

// push measures how many bytes the origin's NATS server sends for 10 000 changes to two
// regions, whose own servers are its leaf nodes: with 1 000 nodes over with ten.
func (b *bench) push(ctx context.Context) error {
	few, err := b.pushedBytes(ctx, 10)
	if err != nil {
		return err
	}
	many, err := b.pushedBytes(ctx, 1000)
	if err != nil {
		return err
	}
	b.Printf("%d changes to two regions: %.0f bytes sent for 10 nodes, %.0f for 1000", pushChanges, few, many)
	b.Figure("push_bytes_1000_over_10", many/few, "ratio")
	return nil
}

// pushedBytes returns the bytes for so many nodes in two regions together.
func (b *bench) pushedBytes(ctx context.Context, nodes int) (sent float64, err error) {
	s, err := b.newSite(ctx, fmt.Sprint("push", nodes))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	var leaves []*server.Server
	for i := range 2 {
		leaf, err := s.leaf(ctx, fmt.Sprint("region-", i))
		if err != nil {
			return 0, err
		}
		leaves = append(leaves, leaf)
	}
	var received, long atomic.Int64 // messages with changes
	for i := range nodes {
		credentials, _, err := s.Authority.NodeUser(fmt.Sprintf("node_%d", i), region)
		if err != nil {
			return 0, err
		}
		conn, err := nats.Connect(leaves[i%2].ClientURL(), nats.UserCredentialBytes([]byte(credentials)))
		if err != nil {
			return 0, err
		}
		s.AddFunc(conn.Close)
		if _, err := conn.Subscribe(wire.Changes, func(m *nats.Msg) {
			if len(m.Data) > pushBatch { // no heartbeat
				received.Add(1)
			}
			if longForm(m) {
				long.Add(1)
			}
		}); err != nil {
			return 0, err
		}
		if err := conn.Flush(); err != nil {
			return 0, err
		}
	}
	if _, err := s.startOrigin(ctx, s.DB); err != nil {
		return 0, err
	}
	before, err := s.sentBytes()
	if err != nil {
		return 0, err
	}
	if err := s.change(ctx, pushChanges); err != nil {
		return 0, err
	}
	want := int64(nodes) * pushChanges / pushBatch
	if err := harness.Poll(ctx, "the changes at every node", func() (bool, error) { return received.Load() >= want, nil }); err != nil {
		return 0, err
	}
	if n := long.Load(); n > 0 {
		return 0, fmt.Errorf("%d messages came in the long form of changes, which is not to be measured", n)
	}
	after, err := s.sentBytes()
	return after - before, err
}

// longForm reports whether a pushed message has changes in long form, as while an origin
// does not know what its nodes read: it pushes the short one at once where no node is
// enrolled when it starts.
func longForm(m *nats.Msg) bool { return bytes.Contains(m.Data, []byte(`"changes":`)) }

// leaf starts the NATS server of a region.
func (s *site) leaf(ctx context.Context, name string) (*server.Server, error) {
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	made, err := s.Authority.RegionServer(name, region, natsauth.Leaf{URL: s.Broker.LeafURL()}, nil)
	if err != nil {
		return nil, err
	}
	for file, text := range map[string]string{natsauth.RegionUser: made.Credentials, natsauth.RegionSystemUser: made.SystemCredentials} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	text := strings.ReplaceAll(made.Config, `credentials: "`, `credentials: "`+dir+"/")
	text = strings.Replace(text, "./jwt", filepath.Join(dir, "jwt"), 1) + "\nlisten: \"127.0.0.1:-1\"\n"
	conf := filepath.Join(s.dir, name+".conf")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	opts, err := server.ProcessConfigFile(conf)
	if err != nil {
		return nil, err
	}
	opts.NoSigs, opts.NoLog = true, true
	leaf, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	leaf.Start()
	s.AddFunc(func() {
		leaf.Shutdown()
		leaf.WaitForShutdown()
	})
	return leaf, harness.Poll(ctx, "the region's server to join", func() (bool, error) { return leaf.NumLeafNodes() == 2, nil })
}

// sentBytes returns how many bytes the origin's server has sent.
func (s *site) sentBytes() (float64, error) {
	credentials, err := s.Authority.SystemUser()
	if err != nil {
		return 0, err
	}
	conn, err := nats.Connect(s.Broker.URL(), nats.UserCredentialBytes([]byte(credentials)))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	answers, err := conn.SubscribeSync(conn.NewInbox())
	if err != nil {
		return 0, err
	}
	if err := conn.PublishRequest("$SYS.REQ.SERVER.PING.STATSZ", answers.Subject, nil); err != nil {
		return 0, err
	}
	for { // other servers may answer too
		m, err := answers.NextMsg(5 * time.Second)
		if err != nil {
			return 0, fmt.Errorf("the statistics of the origin's server: %w", err)
		}
		var stats server.ServerStatsMsg
		if err := json.Unmarshal(m.Data, &stats); err != nil {
			return 0, err
		}
		if stats.Server.Name == "edge-origin" {
			return float64(stats.Stats.Sent.Bytes), nil
		}
	}
}

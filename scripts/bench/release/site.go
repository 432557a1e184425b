package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/adminapi"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
)

// least is the version below which nodes run nothing.
const least = "1.0.0"

// site is an origin and its nodes, a process each.
type site struct {
	origin fleet.OriginProcess
	data   string // of the origin
	cache  string
	nodes  []*node
	key    string // a partner's
	signer string // file of the operators' private key
	thief  string // file of another
}

type node struct {
	fleet.Process
	args []string
	addr string // of the partner API
}

func (b *bench) startSite(ctx context.Context, nodes int) (_ *site, err error) {
	s := &site{data: filepath.Join(b.Dir, "origin"), cache: filepath.Join(b.Dir, "cache")}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if err := s.origin.Launch(ctx, b.edge, s.data); err != nil {
		return nil, err
	}
	account, err := s.origin.Admin.Account(ctx)
	if err != nil {
		return nil, err
	}
	if _, s.key, err = s.origin.Admin.Key(ctx, account, 1_000_000); err != nil {
		return nil, err
	}
	for _, who := range []struct {
		name string
		file *string
	}{{"operator", &s.signer}, {"thief", &s.thief}} {
		*who.file = filepath.Join(b.Dir, who.name+".key")
		if err := b.command(ctx, "keygen", "--no-password", "--key", *who.file, "--pub", filepath.Join(b.Dir, who.name+".pub")); err != nil {
			return nil, err
		}
	}
	for i := range nodes { // one by one: the first fills the cache
		name := fmt.Sprint("region-", i)
		dir := filepath.Join(b.Dir, name)
		credentials, err := s.origin.Admin.Enrol(ctx, dir, name)
		if err != nil {
			return nil, err
		}
		n := &node{Process: fleet.Process{Ready: filepath.Join(dir, "node.json")}, addr: "127.0.0.1:0"}
		n.args = []string{"node", "--data", dir, "--cache", s.cache, "--region", name, "--origin", s.origin.NATS, "--credentials", credentials,
			"--release-keys", filepath.Join(b.Dir, "operator.pub"), "--min-release", least, "--metrics", "127.0.0.1:0", "--log-level", "error"}
		s.nodes = append(s.nodes, n)
		var at struct {
			URL string `json:"base_url"`
		}
		if err := n.Start(ctx, &at, b.edge, append(n.args, "--listen", n.addr)...); err != nil {
			return nil, err
		}
		n.addr = strings.TrimPrefix(at.URL, "http://")
	}
	return s, nil
}

func (s *site) stop() {
	var group errgroup.Group
	for _, n := range s.nodes {
		group.Go(n.Stop)
	}
	if err := group.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-release: stopping:", err)
	}
	s.origin.Kill()
}

// command runs `edge release`.
func (b *bench) command(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, b.edge, append([]string{"release"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("edge release %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// operate is command, at the site's origin.
func (b *bench) operate(ctx context.Context, args ...string) error {
	return b.command(ctx, append(args, "--admin", b.origin.Admin.URL, "--token-file", filepath.Join(b.data, "admin.token"))...)
}

// push makes a release of the modules, with some of them replaced.
func (b *bench) push(ctx context.Context, version, key string, replaced map[string][]byte) error {
	dir := filepath.Join(b.Dir, "release-"+version)
	if _, err := os.Stat(dir); err == nil {
		return nil // the origin has it
	}
	if err := os.CopyFS(dir, os.DirFS(b.modules())); err != nil {
		return err
	}
	for name, wasm := range replaced {
		if err := os.WriteFile(filepath.Join(dir, name+".wasm"), wasm, 0o600); err != nil {
			return err
		}
	}
	return b.operate(ctx, "push", "--modules", dir, "--version", version, "--key", key)
}

// last returns the newest rollout.
func (s *site) last(ctx context.Context) (adminapi.Rollout, error) {
	var page adminapi.List[adminapi.Rollout]
	if err := s.origin.Admin.Call(ctx, "GET", "/rollouts?limit=1", nil, &page); err != nil {
		return adminapi.Rollout{}, err
	}
	if len(page.Items) == 0 {
		return adminapi.Rollout{}, fmt.Errorf("there was no rollout")
	}
	return page.Items[0], nil
}

// until waits for the newest rollout to be as it should.
func (s *site) until(ctx context.Context, what string, is func(adminapi.Rollout) bool) (r adminapi.Rollout, err error) {
	err = harness.Poll(ctx, what, func() (bool, error) {
		if r, err = s.last(ctx); err != nil {
			return false, err
		}
		return is(r), nil
	})
	if err != nil {
		err = fmt.Errorf("%w: release %s is %s: %s", err, r.Version, r.State, r.Reason)
	}
	return r, err
}

//go:build linux

package command

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"aead.dev/minisign"

	"partneredge/edge/dev"
	"partneredge/edge/disktest"
	"partneredge/edge/node"
	"partneredge/edge/wan"
	"partneredge/store/durable/durabletest"
)

// victim is a node that faults come over.
type victim struct {
	t      *testing.T
	region string
	relay  *wan.Relay
	faults map[string]func(*torture) (mend func()) // of its own kind, by name
	end    func()                                  // by force
	begin  func()                                  // again, if it can begin without its origin
	check  func(faults string)                     // what its kind promises besides

	mu            sync.Mutex
	base, metrics string // "" while it is down
}

func (v *victim) set(base, metrics string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.base, v.metrics = base, metrics
}

// baseURL returns the address of the partner API, "" while the node is down.
func (v *victim) baseURL() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.base
}

// up begins a node that could not begin before, and reports whether it is up.
func (v *victim) up() bool {
	if v.baseURL() == "" {
		v.begin()
	}
	return v.baseURL() != ""
}

func (v *victim) inspect(faults string) {
	v.t.Helper()
	if v.check != nil {
		v.check(faults)
	}
}

// get asks who the key is, from another address each time, since one that asks with
// many revoked keys is locked out. 0: there was no answer.
func (v *victim) get(key string) (status int) {
	from := net.IPv4(127, byte(1+rand.IntN(250)), byte(rand.IntN(256)), byte(1+rand.IntN(250)))
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).DialContext,
	}}
	ctx, cancel := context.WithTimeout(v.t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.baseURL()+"/api/v2/public/agents/me", nil)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// judge waits for the node's verdict on a key. It has none while it cannot be asked or has
// yet to hear from the origin.
func (v *victim) judge(key string) (status int) {
	v.t.Helper()
	await(v.t, v.region+" to judge a key", func() bool {
		status = v.get(key)
		return status != 0 && status != http.StatusInternalServerError
	})
	return status
}

// metric reads one of the node's metrics; -1 if there is none.
func (v *victim) metric(name string) float64 {
	v.mu.Lock()
	address := v.metrics
	v.mu.Unlock()
	resp, err := http.Get(address)
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return -1
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return -1
	}
	return value
}

// relayTo starts a relay to the origin and returns the address that a node uses.
func (w *torture) relayTo() (*wan.Relay, string) {
	w.t.Helper()
	address, err := url.Parse(w.ready.NATSURL)
	if err != nil {
		w.t.Fatal(err)
	}
	relay, err := wan.Start(w.t.Context(), wan.Config{Target: address.Host})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(relay.Stop)
	address.Host = relay.Addr()
	return relay, address.String()
}

// processVictim starts a node that is a process of its own: it is killed and
// stopped, and its disk becomes full.
func (w *torture) processVictim(region, trusted string) *victim {
	w.t.Helper()
	relay, origin := w.relayTo()
	n := enrolled(w.t, w.admin, filepath.Join(w.dir, region), region, origin)
	v := &victim{t: w.t, region: region, relay: relay}
	v.begin = func() {
		n.start("--release-keys", trusted)
		v.set(n.ready.BaseURL, n.ready.MetricsURL)
	}
	v.end = func() {
		v.set("", "")
		n.process.kill()
	}
	v.faults = map[string]func(*torture) func(){
		"killed":  func(*torture) func() { v.end(); return v.begin },
		"stopped": func(*torture) func() { n.stop(); return func() { n.signal(syscall.SIGCONT) } },
	}
	if os.Geteuid() == 0 {
		disk := disktest.Small(w.t, "64m")
		n.dir = filepath.Join(disk, "data")
		v.faults["disk full"] = func(w *torture) func() { return disktest.Fill(w.t, disk) }
	} else {
		w.t.Log("NOT TESTED: a full disk, which only root can make")
	}
	v.begin()
	return v
}

// diskNode is a node in this process, over a disk whose power is cut and whose
// clock jumps.
type diskNode struct {
	*victim
	config node.Config
	disk   *durabletest.Disk
	before func(durabletest.Op) error // of disk, from the node's start on; nil: nothing
	node   *node.Node
	skew   atomic.Int64 // of its clock, in nanoseconds
}

// diskVictim starts a node over a disk for tests, with before ahead of what it does there.
func (w *torture) diskVictim(region, trusted string, before func(durabletest.Op) error) *diskNode {
	w.t.Helper()
	relay, origin := w.relayTo()
	modules, cache := testFiles.get(w.t)
	dir := filepath.Join(w.dir, region)
	credentials, err := dev.Enrol(w.t.Context(), w.admin, dir, region)
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := os.ReadFile(trusted)
	if err != nil {
		w.t.Fatal(err)
	}
	var key minisign.PublicKey
	if err := key.UnmarshalText(text); err != nil {
		w.t.Fatal(err)
	}
	d := &diskNode{victim: &victim{t: w.t, region: region, relay: relay}, before: before}
	d.config = node.Config{
		Data: filepath.Join(dir, "data"), Region: region, Origin: origin, Credentials: credentials,
		Modules: modules, Cache: cache, ReleaseKeys: []minisign.PublicKey{key},
		KeepLeads:    240 * time.Hour,  // of which a jump of its clock leaves enough
		ModuleCPU:    10 * time.Second, // this machine may be slow
		StartTimeout: 5 * time.Second,  // others are mended after it
		Now:          func() time.Time { return time.Now().Add(time.Duration(d.skew.Load())) },
	}
	d.victim.begin = d.start
	d.victim.end = func() { d.cut(w.rng) }
	d.victim.check = d.neverWroteAfterFailedSync
	d.faults = map[string]func(*torture) func(){
		"power cut":    func(w *torture) func() { d.cut(w.rng); return d.start },
		"failing disk": func(w *torture) func() { return d.fail(w.rng.Uint64(), errors.New("input/output error")) },
		"disk full":    func(w *torture) func() { return d.fail(w.rng.Uint64(), syscall.ENOSPC) },
		"clock jump":   d.jump,
	}
	w.t.Cleanup(func() {
		if d.node == nil {
			return
		}
		if err := d.node.Stop(context.Background()); err != nil && !w.t.Failed() {
			w.t.Errorf("stop %s: %v", region, err)
		}
	})
	await(w.t, region+" to start", d.up)
	return d
}

// start starts the node, but for one that lost its records with the power before
// they were synced: without its origin, that one stays down until it is tried again.
func (d *diskNode) start() {
	d.t.Helper()
	d.disk = durabletest.New(d.t, d.config.Data)
	if d.before != nil {
		d.disk.Before(d.before)
	}
	d.config.FS = d.disk
	var err error
	d.node, err = node.Start(d.t.Context(), d.config)
	switch {
	case errors.Is(err, node.ErrNoOrigin):
		d.t.Logf("%s stays down for now: %v", d.region, err)
		return
	case err != nil:
		d.t.Fatalf("start %s: %v", d.region, err)
	}
	d.set(d.node.URL(), d.node.MetricsURL()+"/metrics")
}

// cut cuts the node's power: what it had not synced may be gone.
func (d *diskNode) cut(rng *rand.Rand) {
	d.set("", "")
	d.disk.Before(func(durabletest.Op) error { return durabletest.ErrPowerCut })
	ended, cancel := context.WithCancel(context.Background())
	cancel() // nobody waits for requests under way
	_ = d.node.Stop(ended)
	d.node = nil
	d.neverWroteAfterFailedSync("a power cut")
	d.disk.Cut(rng)
}

// fail has some of what the node changes on its disk fail.
func (d *diskNode) fail(seed uint64, with error) (mend func()) {
	rng := rand.New(rand.NewPCG(seed, 1)) // under the disk's lock
	d.disk.Before(func(op durabletest.Op) error {
		if op.N == 0 || op.Kind == durabletest.Remove || rng.IntN(3) > 0 {
			return nil
		}
		return with
	})
	return func() { d.disk.Before(func(durabletest.Op) error { return nil }) }
}

// jump sets the node's clock forward or back, by up to two days, for a while.
func (d *diskNode) jump(w *torture) (mend func()) {
	d.skew.Store(w.rng.Int64N(int64(96*time.Hour)) - int64(48*time.Hour))
	return func() { d.skew.Store(0) }
}

// neverWroteAfterFailedSync holds that of leads. Records need not: their files are
// logs, of which a restart takes what lies before the first gap.
func (d *diskNode) neverWroteAfterFailedSync(faults string) {
	d.t.Helper()
	for _, file := range d.disk.AfterFailedSync() {
		if strings.Contains(file, "outbox") {
			d.t.Errorf("%s, after %s: written again after a failed sync: %s", d.region, faults, file)
		}
	}
}

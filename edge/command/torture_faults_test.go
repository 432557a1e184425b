//go:build linux

package command

import (
	"net/http"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"partneredge/edge/adminapi"
)

// fault is one way to break an installation.
type fault struct {
	name, target string
	alone        bool // comes with no other
	// begin breaks something, and returns what mends it.
	begin func(*torture) (mend func())
}

// allFaults returns every fault once.
func (w *torture) allFaults() []fault {
	all := []fault{
		{name: "origin killed", target: "origin", begin: (*torture).killOrigin},
		{name: "origin stopped", target: "origin", begin: (*torture).stopOrigin},
		{name: "rollout on a dead node", target: "nodes", alone: true, begin: (*torture).rollOutOnDeadNode},
	}
	if w.database != nil {
		all = append(all, fault{name: "database crashed", target: "database", begin: (*torture).crashDatabase})
	} else {
		all = append(all, fault{name: "origin restored", alone: true, target: "origin", begin: (*torture).restoreOrigin})
	}
	for _, v := range w.victims {
		for name, begin := range v.faults {
			all = append(all, fault{name: v.region + " " + name, target: v.region, begin: func(w *torture) func() { return begin(w) }})
		}
		all = append(all,
			fault{name: v.region + " link cut", target: "link of " + v.region, begin: func(*torture) func() { v.relay.Cut(); return v.relay.Mend }},
			fault{name: v.region + " link stalled", target: "link of " + v.region, begin: func(*torture) func() { v.relay.Stall(); return v.relay.Mend }},
		)
	}
	return all
}

func (w *torture) killOrigin() (mend func()) {
	w.origin.kill()
	return func() {
		if w.database != nil {
			w.database.Start() // an origin ends at once if there is none
		}
		w.startOrigin()
	}
}

func (w *torture) stopOrigin() (mend func()) {
	w.origin.stop()
	return func() { w.origin.signal(syscall.SIGCONT) }
}

func (w *torture) crashDatabase() (mend func()) {
	w.database.Crash()
	return w.database.Start
}

// restoreOrigin takes a backup, lets the origin go on until nodes have handed leads
// over that are not in it, and puts the origin back as it was.
func (w *torture) restoreOrigin() (mend func()) {
	backup := filepath.Join(w.dir, "backup-"+strconv.Itoa(w.faults["origin restored"]))
	edge(w.t, "backup", "--data", w.originDir, "--to", backup)
	w.pause(2 * time.Second)
	w.origin.kill()
	return func() {
		w.originDir = filepath.Join(w.dir, "origin-"+strconv.Itoa(w.faults["origin restored"]))
		edge(w.t, "restore", "--from", backup, "--data", w.originDir)
		w.startOrigin()
		w.mu.Lock()
		clear(w.atOrigin)
		w.mu.Unlock()
	}
}

// rollOutOnDeadNode begins a rollout and ends a node while it is under way.
func (w *torture) rollOutOnDeadNode() (mend func()) {
	next := "1.0.0"
	if w.faults["rollout on a dead node"]%2 == 0 {
		next = "1.1.0"
	}
	const pause = 5 * time.Second // before the second stage
	var begun adminapi.Rollout
	began := time.Now()
	if err := w.admin.Call(w.t.Context(), http.MethodPost, "/releases/"+w.releases[next]+"/promote",
		map[string]any{"stages": []int{50, 100}, "pause_seconds": int(pause / time.Second), "canary_percent": 0}, &begun); err != nil {
		w.t.Errorf("roll out %s: %v", next, err)
		return func() {}
	}
	w.rollout = begun.ID
	w.pause(time.Second)
	v := w.victims[w.rng.IntN(len(w.victims))]
	v.end()
	inTime := time.Since(began) < pause // or the rollout may have been done before
	for dead := time.Now(); inTime && time.Since(dead) < pause+2*time.Second; time.Sleep(100 * time.Millisecond) {
		if w.rolloutNow().State == "done" {
			w.t.Errorf("the rollout is done while %s, where it was to serve, is dead", v.region)
			break
		}
	}
	return v.begin
}

func (w *torture) rolloutNow() (now adminapi.Rollout) {
	if err := w.admin.Call(w.t.Context(), http.MethodGet, "/rollouts/"+w.rollout, nil, &now); err != nil {
		w.t.Errorf("read rollout: %v", err)
	}
	return now
}

// rolloutEnds waits, with every victim up, for the end of a rollout, and holds that all
// nodes run what was rolled out if it is done.
func (w *torture) rolloutEnds(faults string) {
	if w.rollout == "" {
		return
	}
	w.t.Helper()
	var ended adminapi.Rollout
	await(w.t, "the rollout to end after "+faults, func() bool {
		ended = w.rolloutNow()
		return ended.State == "done" || ended.State == "rolled_back"
	})
	if ended.State == "done" {
		allRun(w.t, w.admin, ended.Digest)
	}
	w.faults["rollout ended as "+ended.State]++
	w.rollout = ""
}

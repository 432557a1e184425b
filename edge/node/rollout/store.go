package rollout

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"partneredge/edge/release"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store/durable"
)

// releaseStore keeps releases on the node's disk, and fetches missing ones from
// the origin. Each release that it returns was verified by the node's own keys.
type releaseStore struct {
	disk   durable.Disk
	dir    *release.Dir
	file   string // names the release that runs
	origin *originSource
	policy release.Policy
	log    *slog.Logger
	kept   keptRelease // what file holds
	trials trials
}

// keptRelease is the content of DATA/release.json, which says what the node runs
// after a restart.
type keptRelease struct {
	// Digest is empty for the modules of the node's own disk, and so is Before.
	Digest  string `json:"digest"`
	Version string `json:"version"`
	Before  string `json:"before"` // digest of the release that ran before

	// Earlier are the digests of those that ran before that, the last one first, at
	// most maxEarlier, and "" for the node's own modules.
	Earlier []string `json:"earlier,omitempty"`

	// RolledBack are those of all these that were rolled back. No restart runs them.
	RolledBack []string `json:"rolled_back,omitempty"`
}

// maxEarlier bounds the releases that stay on the disk beyond the one of a
// rollback. A release that ran lately often runs again, and need not be fetched
// then.
const maxEarlier = 2

// next returns what to keep once another release runs.
func (k keptRelease) next(digest, version, before string) keptRelease {
	next := keptRelease{Digest: digest, Version: version, Before: before, RolledBack: k.RolledBack}
	for _, one := range k.ran() {
		if one != digest && one != before && !slices.Contains(next.Earlier, one) && len(next.Earlier) < maxEarlier {
			next.Earlier = append(next.Earlier, one)
		}
	}
	return next
}

// ran returns the digests of what ran, the last one first.
func (k keptRelease) ran() []string { return append([]string{k.Digest, k.Before}, k.Earlier...) }

// toRun returns the releases that a restart is to run, the second if the first cannot, and the
// modules of the node's own disk if both cannot. None is from before those ran: it may have been
// rolled back.
func (k keptRelease) toRun() (digests []string) {
	for _, one := range k.ran() {
		switch {
		case one == "", len(digests) == 2:
			return digests
		case !slices.Contains(k.RolledBack, one):
			digests = append(digests, one)
		}
	}
	return digests
}

// under returns what to keep after an order, which may say what was rolled back. What it
// orders to run is not, or not any more.
func (k keptRelease) under(o wire.Order) keptRelease {
	var back []string
	for _, one := range k.ran() {
		was := one == o.RolledBack || slices.Contains(k.RolledBack, one)
		if was && one != "" && one != o.Run && !slices.Contains(back, one) {
			back = append(back, one)
		}
	}
	k.RolledBack = back
	return k
}

func openStore(cfg Config) (*releaseStore, error) {
	dir, err := release.OpenDir(filepath.Join(cfg.Dir, "releases"))
	if err != nil {
		return nil, err
	}
	_ = os.RemoveAll(filepath.Join(cfg.Dir, "releases.part")) // another version kept what it had fetched there
	s := &releaseStore{
		disk: durable.Disk{FS: cfg.FS}, dir: dir, file: filepath.Join(cfg.Dir, "release.json"), policy: cfg.Policy, log: cfg.Log,
		origin: &originSource{origin: cfg.Origin, timeout: cfg.FetchTimeout, parts: map[string]part{}},
	}
	s.load()
	s.trials = openTrials(s.disk, filepath.Join(cfg.Dir, "candidate.json"), cfg.Log)
	return s, nil
}

// load reads what remember wrote last. A file that cannot be read is set aside and
// counts as none.
func (s *releaseStore) load() {
	err := durable.ReadJSON(s.file, &s.kept)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return
	}
	s.kept = keptRelease{}
	aside := s.file + ".damaged"
	s.log.Error("damaged file set aside", "file", s.file, "as", aside, "err", err)
	if err := s.disk.Rename(s.file, aside); err != nil {
		s.log.Error("damaged file stays", "file", s.file, "err", err)
	}
}

// remember writes down what the node runs after a restart.
func (s *releaseStore) remember(next keptRelease) error {
	if err := s.disk.WriteJSON(s.file, next); err != nil {
		return err
	}
	s.kept = next
	return nil
}

// prune removes all releases from the disk but those that a restart or a rollback
// needs, and those named.
func (s *releaseStore) prune(keep ...string) error {
	return s.dir.Prune(slices.Concat(keep, s.kept.ran())...)
}

// fetch reads and verifies a release, and asks the origin for what is not on the
// disk.
func (s *releaseStore) fetch(ctx context.Context, digest string) (*release.Release, error) {
	if len(s.policy.Keys) == 0 {
		return nil, errNoKeys
	}
	r, err := s.dir.Fetch(ctx, s.origin, digest, s.policy)
	if !errors.Is(err, host.ErrUnavailable) && ctx.Err() == nil {
		s.origin.forget() // it is on the disk, or refused
	}
	return r, err
}

// giveUp drops what has arrived of a release that is not wanted any more. No fetch may be
// under way.
func (s *releaseStore) giveUp() { s.origin.forget() }

// errNoKeys refuses every release.
var errNoKeys = errors.New("this node trusts no release key: start it with --release-keys FILE")

package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"partneredge/edge/release"
	"partneredge/host"
	"partneredge/store/durable"
)

// releaseStore keeps releases on the node's disk, and fetches missing ones from
// the origin. Each release that it returns was verified by the node's own keys.
type releaseStore struct {
	dir    *release.Dir
	file   string // names the release that runs
	origin *originSource
	policy release.Policy
	log    *slog.Logger
}

// keptRelease is the content of DATA/release.json, which says what the node runs
// after a restart.
type keptRelease struct {
	Digest  string `json:"digest"`
	Version string `json:"version"`
	Before  string `json:"before"` // digest of the release that ran before

	// Earlier are the digests of those that ran before that, the last one first, at
	// most maxEarlier.
	Earlier []string `json:"earlier,omitempty"`
}

// maxEarlier bounds the releases that stay on the disk beyond the one of a
// rollback. A release that ran lately often runs again, and need not be fetched
// then.
const maxEarlier = 2

// next returns what to keep once another release runs.
func (k keptRelease) next(digest, version, before string) keptRelease {
	next := keptRelease{Digest: digest, Version: version, Before: before}
	for _, one := range append([]string{k.Digest, k.Before}, k.Earlier...) {
		if one != "" && one != digest && one != before && !slices.Contains(next.Earlier, one) && len(next.Earlier) < maxEarlier {
			next.Earlier = append(next.Earlier, one)
		}
	}
	return next
}

func openStore(cfg Config) (*releaseStore, error) {
	dir, err := release.OpenDir(filepath.Join(cfg.Dir, "releases"))
	if err != nil {
		return nil, err
	}
	_ = os.RemoveAll(filepath.Join(cfg.Dir, "releases.part")) // another version kept what it had fetched there
	return &releaseStore{
		dir: dir, file: filepath.Join(cfg.Dir, "release.json"), policy: cfg.Policy, log: cfg.Log,
		origin: &originSource{origin: cfg.Origin, timeout: cfg.FetchTimeout, parts: map[string]part{}},
	}, nil
}

// kept returns what remember wrote last, zero if nothing was.
func (s *releaseStore) kept() (k keptRelease, err error) {
	text, err := os.ReadFile(s.file)
	if errors.Is(err, os.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, err
	}
	if err := json.Unmarshal(text, &k); err != nil {
		return keptRelease{}, fmt.Errorf("read %s: %w", s.file, err)
	}
	return k, nil
}

// last returns kept. A file that cannot be read is set aside and counts as none.
func (s *releaseStore) last() keptRelease {
	kept, err := s.kept()
	if err == nil {
		return kept
	}
	aside := s.file + ".damaged"
	s.log.Error("damaged file set aside", "file", s.file, "as", aside, "err", err)
	if err := durable.Rename(s.file, aside); err != nil {
		s.log.Error("damaged file stays", "file", s.file, "err", err)
	}
	return kept
}

// remember makes a release the one that runs after a restart.
func (s *releaseStore) remember(digest, version, before string) error {
	text, err := json.MarshalIndent(s.last().next(digest, version, before), "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(s.file, append(text, '\n'), 0o600)
}

// prune removes all releases from the disk but those that a restart or a rollback
// needs, and those named.
func (s *releaseStore) prune(keep ...string) error {
	kept, err := s.kept()
	if err != nil {
		return err
	}
	return s.dir.Prune(slices.Concat(keep, []string{kept.Digest, kept.Before}, kept.Earlier)...)
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

// errNoKeys refuses every release.
var errNoKeys = errors.New("this node trusts no release key")

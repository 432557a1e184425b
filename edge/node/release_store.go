package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/release"
	"partneredge/host"
)

// releaseStore keeps releases on the node's disk, and fetches what it lacks from
// the origin. What it hands out was verified by the node's own keys, each time.
type releaseStore struct {
	dir    *release.Dir
	file   string // names the release that runs
	from   *remoteReleases
	policy release.Policy
	log    *slog.Logger
}

// keptRelease is DATA/release.json: what the node runs after a restart.
type keptRelease struct {
	Digest  string `json:"digest"`
	Version string `json:"version"`
	Before  string `json:"before"` // digest; "" the modules of the node's own disk

	// Those that ran before that, the last one first: at most earlierKept.
	Earlier []string `json:"earlier,omitempty"`
}

// earlierKept is how many releases stay on the disk beyond those of a rollback:
// what ran lately is what runs again, and then need not be fetched.
const earlierKept = 2

// followed is what is kept once another release runs.
func (k keptRelease) followed(digest, version, before string) keptRelease {
	next := keptRelease{Digest: digest, Version: version, Before: before}
	for _, one := range append([]string{k.Digest, k.Before}, k.Earlier...) {
		if one != "" && one != digest && one != before && !slices.Contains(next.Earlier, one) && len(next.Earlier) < earlierKept {
			next.Earlier = append(next.Earlier, one)
		}
	}
	return next
}

func newReleaseStore(c Config, l *link.Link) (*releaseStore, error) {
	dir := filepath.Join(c.Data, "releases")
	kept, err := release.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	return &releaseStore{
		dir: kept, file: filepath.Join(c.Data, "release.json"), log: c.Log,
		from:   &remoteReleases{link: l, parts: filepath.Join(c.Data, "releases.part"), timeout: c.WriteOrigin},
		policy: release.Policy{Keys: c.ReleaseKeys, Min: c.MinRelease},
	}, nil
}

// first opens what the node starts with: the release that it ran last, else the
// one before, else the modules of its own disk.
func (s *releaseStore) first(ctx context.Context, shop *workshop) (*lineup, error) {
	kept := s.last()
	for _, digest := range []string{kept.Digest, kept.Before} {
		if digest == "" {
			continue
		}
		l, err := s.open(ctx, shop, digest)
		if err == nil {
			s.log.Info("release runs", "digest", l.digest, "version", l.version)
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		s.log.Error("release cannot run", "digest", digest, "err", err)
	}
	return shop.openFolder(ctx, shop.config.Progress)
}

func (s *releaseStore) open(ctx context.Context, shop *workshop, digest string) (*lineup, error) {
	r, err := s.fetch(ctx, digest)
	if err != nil {
		return nil, err
	}
	return shop.openRelease(ctx, r, func() {})
}

// kept is what remember wrote last; zero when nothing was.
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

// last is kept, or zero when that cannot be read: then the file is set aside.
func (s *releaseStore) last() keptRelease {
	kept, err := s.kept()
	if err == nil {
		return kept
	}
	aside := s.file + ".damaged"
	s.log.Error("damaged file set aside", "file", s.file, "as", aside, "err", err)
	if err := os.Rename(s.file, aside); err != nil {
		s.log.Error("damaged file stays", "file", s.file, "err", err)
	}
	return kept
}

// remember has a release run after a restart; digest "" is the modules of the
// node's own disk.
func (s *releaseStore) remember(digest, version, before string) error {
	text, err := json.MarshalIndent(s.last().followed(digest, version, before), "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.file), ".release-")
	if err != nil {
		return fmt.Errorf("write %s: %w", s.file, err)
	}
	defer os.Remove(f.Name()) // nothing is there any more once renamed
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", s.file, err)
	}
	if err := os.Rename(f.Name(), s.file); err != nil {
		return fmt.Errorf("write %s: %w", s.file, err)
	}
	return nil
}

// prune removes what is on the disk of releases but those that are kept, and those
// named.
func (s *releaseStore) prune(keep ...string) error {
	kept, err := s.kept()
	if err != nil {
		return err
	}
	return s.dir.Prune(slices.Concat(keep, []string{kept.Digest, kept.Before}, kept.Earlier)...)
}

// fetch reads a release, from the origin where it is not on the disk, and
// verifies it.
func (s *releaseStore) fetch(ctx context.Context, digest string) (*release.Release, error) {
	if len(s.policy.Keys) == 0 {
		return nil, errNoKeys
	}
	r, err := s.dir.Fetch(ctx, s.from, digest, s.policy)
	if !errors.Is(err, host.ErrUnavailable) && ctx.Err() == nil {
		s.from.forget() // it is on the disk, or refused
	}
	return r, err
}

// errNoKeys refuses every release.
var errNoKeys = errors.New("this node trusts no release key")

package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"partneredge/edge/adminapi"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver of the origin's database
)

// forbidden is an artifact that no node may run.
type forbidden struct {
	what, version, key string
	steal              []string // statements; ?1 is the digest of a module that nodes do not have, ?2 the version
	reason             string   // of the refusal
}

func (b *bench) forbidden() []forbidden {
	const upload = `(SELECT upload FROM release_blobs WHERE digest = ?1)`
	return []forbidden{
		{"tampered", "3.0.0", b.signer, []string{
			`UPDATE release_pieces SET content = CAST(substr(content, 1, 5000) || x'00010203' || substr(content, 5005) AS BLOB) WHERE start = 0 AND upload = ` + upload,
		}, "changed after it was signed"},
		{"truncated", "3.1.0", b.signer, []string{
			`DELETE FROM release_pieces WHERE start > 0 AND upload = ` + upload,
			`UPDATE release_blobs SET size = (SELECT sum(length(content)) FROM release_pieces WHERE upload = ` + upload + `) WHERE digest = ?1`,
		}, "cut short"},
		{"unsigned", "3.2.0", b.signer, []string{
			`DELETE FROM release_manifests WHERE subject = (SELECT digest FROM releases WHERE version = ?2)`,
		}, "is not signed"},
		{"downgraded", "0.9.0", b.signer, nil, "older than the least"},
		{"by a wrong key", "3.3.0", b.thief, nil, "not signed by a trusted key"},
	}
}

// refused rolls out what no node may run, to all nodes at once. A client cannot
// bring all of it to the origin: some is put there as whoever has stolen the
// origin would, in its database.
func (b *bench) refused(ctx context.Context) (err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.data, "origin.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ran := 0
	for i, artifact := range b.forbidden() {
		modules, err := b.variants(uint32(10 + i))
		if err != nil {
			return err
		}
		if err := b.push(ctx, artifact.version, artifact.key, map[string][]byte{"agents": modules["agents"]}); err != nil {
			return err
		}
		if err := artifact.tamper(ctx, db, modules["agents"]); err != nil {
			return fmt.Errorf("%s: %w", artifact.what, err)
		}
		if err := b.operate(ctx, "rollout", artifact.version, "--stages", "100", "--canary", "0", "--pause", "0s"); err != nil {
			return err
		}
		served := false
		r, err := b.until(ctx, "the end of what is "+artifact.what, func(r adminapi.Rollout) bool {
			served = served || r.Serving > 0
			return r.State == "rolled_back" || r.State == "done"
		})
		if err != nil {
			return err
		}
		if served || r.State == "done" {
			ran++
		} else if !strings.Contains(r.Reason, artifact.reason) {
			return fmt.Errorf("what is %s was refused for another reason: %s", artifact.what, r.Reason)
		}
		b.Printf("%s: %s: %s", artifact.what, r.State, r.Reason)
	}
	b.Figure("refused_artifacts_run", float64(ran), "artifacts")
	return nil
}

// tamper changes the artifact, whose module is given, in the origin's database.
func (f *forbidden) tamper(ctx context.Context, db *sql.DB, module []byte) error {
	sum := sha256.Sum256(module)
	for _, statement := range f.steal {
		done, err := db.ExecContext(ctx, statement, "sha256:"+hex.EncodeToString(sum[:]), f.version)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return fmt.Errorf("the origin's database has nothing to change (%v): %s", err, statement)
		}
	}
	return nil
}

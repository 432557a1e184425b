package central

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/registry"
)

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestUploads(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		now := time.Now().UTC()
		db := openWith(t, p, Config{Now: func() time.Time { return now }})
		content := bytes.Repeat([]byte{0, 1, 2, 0xff, '\''}, 300_000) // no text, and more than a piece
		whole := digestOf(content)
		id := must(db.BeginUpload(ctx))(t)
		wantErr(t, db.AppendUpload(ctx, id, 0, nil), store.ErrInvalid)
		wantErr(t, db.AppendUpload(ctx, id, 0, make([]byte, registry.PieceMost+1)), store.ErrInvalid)
		wantErr(t, db.AppendUpload(ctx, id, 1, content[:1]), store.ErrConflict)
		for at := 0; at < len(content); at += registry.PieceMost {
			piece := content[at:min(at+registry.PieceMost, len(content))]
			noError(t, db.AppendUpload(ctx, id, int64(at), piece))
			wantErr(t, db.AppendUpload(ctx, id, int64(at), piece), store.ErrConflict)
		}
		if size := must(db.UploadSize(ctx, id))(t); size != int64(len(content)) {
			t.Errorf("the upload has %d bytes", size)
		}
		_, err := db.BlobSize(ctx, whole)
		wantErr(t, err, store.ErrNotFound)
		noError(t, db.FinishUpload(ctx, id, whole))
		wantErr(t, db.FinishUpload(ctx, id, whole), store.ErrNotFound)
		if size := must(db.BlobSize(ctx, whole))(t); size != int64(len(content)) {
			t.Errorf("the blob has %d bytes", size)
		}
		var back []byte
		for {
			some := must(db.ReadBlob(ctx, whole, int64(len(back)), 700_000))(t)
			if len(some) == 0 {
				break
			}
			back = append(back, some...)
		}
		if !bytes.Equal(back, content) {
			t.Errorf("%d bytes came back, others than went in", len(back))
		}
		if past := must(db.ReadBlob(ctx, whole, 1<<40, 10))(t); len(past) != 0 {
			t.Errorf("%d bytes beyond the end", len(past))
		}
		_, err = db.ReadBlob(ctx, whole, -1, 10)
		wantErr(t, err, store.ErrInvalid)

		// The same again leaves one copy, another digest none.
		upload := func(content []byte, digest string) error {
			id := must(db.BeginUpload(ctx))(t)
			if len(content) > 0 {
				noError(t, db.AppendUpload(ctx, id, 0, content))
			}
			return db.FinishUpload(ctx, id, digest)
		}
		small := []byte("small")
		noError(t, upload(small, digestOf(small)))
		noError(t, upload(small, digestOf(small)))
		wantErr(t, upload(small, whole), store.ErrInvalid)
		wantErr(t, upload(nil, digestOf(nil)), store.ErrInvalid)
		var pieces int
		noError(t, db.db.QueryRow(ctx, `SELECT count(*) FROM release_pieces`).Scan(&pieces))
		if pieces != 3 {
			t.Errorf("%d pieces are kept, want 2 and 1", pieces)
		}

		// What a disk has spoilt gives way to the same, pushed again.
		for _, spoil := range []string{`UPDATE release_pieces SET content = ? WHERE start > 0`, `UPDATE release_pieces SET start = start + 1 WHERE start > 0 AND length(content) > length(?)`} {
			noError(t, db.change(ctx, "", func(ctx context.Context, t *tx) error {
				_, err := t.Exec(ctx, spoil, []byte("spoilt"))
				return err
			}))
			if must(db.HoldsBlob(ctx, whole))(t) {
				t.Error("a spoilt blob is held to be whole")
			}
			id := must(db.BeginUpload(ctx))(t)
			for at := 0; at < len(content); at += registry.PieceMost {
				noError(t, db.AppendUpload(ctx, id, int64(at), content[at:min(at+registry.PieceMost, len(content))]))
			}
			noError(t, db.FinishUpload(ctx, id, whole))
			if !must(db.HoldsBlob(ctx, whole))(t) {
				t.Error("a blob that was pushed again is not whole")
			}
			noError(t, db.db.QueryRow(ctx, `SELECT count(*) FROM release_pieces`).Scan(&pieces))
			if pieces != 3 {
				t.Errorf("%d pieces are kept beside a blob that was pushed again, want 2 and 1", pieces)
			}
		}

		// What rests for an hour is given up; 64 at a time are enough.
		id = must(db.BeginUpload(ctx))(t)
		noError(t, db.AppendUpload(ctx, id, 0, small))
		noError(t, db.change(ctx, "", func(ctx context.Context, t *tx) error {
			for i := 1; i < 64; i++ {
				if _, err := t.Exec(ctx, `INSERT INTO release_uploads (id, size, updated_at) VALUES (?, 0, ?)`, fmt.Sprint(i), store.Micros(now)); err != nil {
					return err
				}
			}
			return nil
		}))
		_, err = db.BeginUpload(ctx)
		wantErr(t, err, store.ErrLimit)
		now = now.Add(time.Hour + time.Second)
		must(db.BeginUpload(ctx))(t)
		_, err = db.UploadSize(ctx, id)
		wantErr(t, err, store.ErrNotFound)
		noError(t, db.db.QueryRow(ctx, `SELECT count(*) FROM release_pieces`).Scan(&pieces))
		if pieces != 3 {
			t.Errorf("%d pieces are left", pieces)
		}
	})
}

// TestUploadsAtOnce: many who bring the same blob leave it whole.
func TestUploadsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		content := bytes.Repeat([]byte("x"), 100_000)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				id, err := db.BeginUpload(ctx)
				if err == nil {
					err = db.AppendUpload(ctx, id, 0, content)
				}
				if err == nil {
					err = db.FinishUpload(ctx, id, digestOf(content))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if back := must(db.ReadBlob(ctx, digestOf(content), 0, registry.PieceMost))(t); !bytes.Equal(back, content) {
			t.Errorf("%d bytes came back", len(back))
		}
		var pieces, uploads int
		noError(t, db.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM release_pieces), (SELECT count(*) FROM release_uploads)`).Scan(&pieces, &uploads))
		if pieces != 1 || uploads != 0 {
			t.Errorf("%d pieces and %d uploads are left", pieces, uploads)
		}
	})
}

func TestManifests(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := audit.WithActor(context.Background(), store.Actor{ID: "tok_1", Name: "Ana", Role: store.RoleOperator})
		db := open(t, p)
		manifest := func(text, subject string) store.Manifest {
			return store.Manifest{Digest: digestOf([]byte(text)), MediaType: "m", ArtifactType: "a", Subject: subject, Content: []byte(text)}
		}
		first, second := manifest("first", ""), manifest("second", "")
		about := manifest("about", first.Digest)
		for range 2 {
			noError(t, db.PutManifest(ctx, first, "v1"))
		}
		noError(t, db.PutManifest(ctx, second, ""))
		noError(t, db.PutManifest(ctx, about, ""))
		for reference, want := range map[string]store.Manifest{"v1": first, first.Digest: first, second.Digest: second} {
			if got := must(db.Manifest(ctx, reference))(t); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s is %v", reference, got)
			}
		}
		for _, none := range []string{"v2", "", "\x00", "\xff"} {
			_, err := db.Manifest(ctx, none)
			wantErr(t, err, store.ErrNotFound)
		}
		if found := must(db.Referrers(ctx, first.Digest, 10))(t); len(found) != 1 || found[0].Digest != about.Digest {
			t.Errorf("referrers %v", found)
		}
		for _, none := range []string{"", "\xff", second.Digest} {
			if found := must(db.Referrers(ctx, none, 10))(t); len(found) != 0 {
				t.Errorf("referrers of %q: %v", none, found)
			}
		}
		for n := range registry.ReferrersMost - 1 {
			noError(t, db.PutManifest(ctx, manifest(fmt.Sprint("about ", n), first.Digest), ""))
		}
		wantErr(t, db.PutManifest(ctx, manifest("one too many", first.Digest), ""), store.ErrLimit)
		noError(t, db.PutManifest(ctx, about, "")) // is there already
		wantErr(t, db.PutManifest(ctx, manifest("about nothing", digestOf([]byte("nothing"))), ""), store.ErrNotFound)
		noError(t, db.PutManifest(ctx, second, "v1")) // moved
		noError(t, db.PutManifest(ctx, second, "a2"))
		if got := must(db.Manifest(ctx, "v1"))(t); got.Digest != second.Digest {
			t.Errorf("v1 is %v", got)
		}
		if tags := must(db.Tags(ctx, "", 10))(t); strings.Join(tags, " ") != "a2 v1" {
			t.Errorf("tags %v", tags)
		}
		if tags := must(db.Tags(ctx, "a2", 1))(t); strings.Join(tags, " ") != "v1" {
			t.Errorf("tags after a2 %v", tags)
		}
		large := manifest(strings.Repeat("x", 1<<20+1), "")
		wantErr(t, db.PutManifest(ctx, large, ""), store.ErrInvalid)
		entries, _, err := db.Audits(ctx, AuditFilter{Target: second.Digest}, store.Page{})
		if noError(t, err); len(entries) != 3 || entries[0].Action != "release.push" {
			t.Errorf("audit log %v", entries)
		}
		if entries, _, err = db.Audits(ctx, AuditFilter{Target: first.Digest}, store.Page{}); err != nil || len(entries) != 1 {
			t.Errorf("audit log of what was put twice: %v, %v", entries, err)
		}
	})
}

func TestReleases(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := audit.WithActor(context.Background(), store.Actor{ID: "tok_1", Name: "Ana", Role: store.RoleOperator})
		db := open(t, p)
		r := store.Release{
			Version: "1.4.0", Digest: digestOf(nil), Size: 7, Modules: []store.ReleaseModule{{Name: "gate", Size: 5}},
			Signers: []store.ReleaseSigner{{KeyID: "A", Comment: "c"}},
		}
		made, added, err := db.AddRelease(ctx, r)
		if noError(t, err); !added || !strings.HasPrefix(made.ID, "rel_") || made.CreatedAt.IsZero() {
			t.Fatalf("made %+v", made)
		}
		if got := must(db.Release(ctx, made.ID))(t); fmt.Sprint(got) != fmt.Sprint(made) {
			t.Errorf("read %+v, want %+v", got, made)
		}
		again, added, err := db.AddRelease(ctx, r)
		if noError(t, err); added || fmt.Sprint(again) != fmt.Sprint(made) {
			t.Errorf("again: %v %+v", added, again)
		}
		r.Signers = append(r.Signers, store.ReleaseSigner{KeyID: "B"})
		signed, added, err := db.AddRelease(ctx, r)
		if noError(t, err); added || signed.ID != made.ID || len(must(db.Release(ctx, made.ID))(t).Signers) != 2 {
			t.Errorf("signed again: %v %+v", added, signed)
		}
		before := r
		before.Signers = r.Signers[:1] // who asked had read them before the second signed
		late, added, err := db.AddRelease(ctx, before)
		if noError(t, err); added || fmt.Sprint(late) != fmt.Sprint(signed) || fmt.Sprint(must(db.Release(ctx, made.ID))(t)) != fmt.Sprint(signed) {
			t.Errorf("noted late by a list without the second signer: %v %+v, want %+v", added, late, signed)
		}
		clash := r
		clash.Digest = digestOf([]byte("other"))
		_, _, err = db.AddRelease(ctx, clash)
		wantErr(t, err, store.ErrConflict)
		clash.Version = "1.5.0"
		later, _, err := db.AddRelease(ctx, clash)
		noError(t, err)
		all, _, err := db.Releases(ctx, store.Page{})
		if noError(t, err); len(all) != 2 || all[0].ID != later.ID {
			t.Errorf("list %v", all)
		}
		entries, _, err := db.Audits(ctx, AuditFilter{Target: made.ID}, store.Page{})
		if noError(t, err); len(entries) != 2 || entries[0].Action != "release.sign" || entries[1].Action != "release.create" {
			t.Errorf("audit log %v", entries)
		}
		for _, bad := range append(badTexts, "") {
			_, err := db.Release(ctx, bad)
			wantErr(t, err, store.ErrNotFound)
			_, _, err = db.AddRelease(ctx, store.Release{Version: bad, Digest: "d"})
			wantErr(t, err, store.ErrInvalid)
		}
	})
}

// TestReleaseOfTwoOrigins has two origins note a release at once, each with a signer that the
// other does not know yet: one adds it, and both signers are kept.
func TestReleaseOfTwoOrigins(t *testing.T) {
	ctx := audit.WithActor(t.Context(), store.Actor{ID: "tok_1", Name: "Ana", Role: store.RoleOperator})
	p := place{"postgres", centraltest.Postgres(t)}
	origins := []*DB{open(t, p), open(t, p)}
	// Until this ends, the release is noted and not committed.
	holding := must(p.another(t).BeginTx(ctx, nil))(t)
	defer func() { _ = holding.Rollback() }()
	_, err := holding.ExecContext(ctx, `LOCK TABLE audit IN SHARE MODE`)
	noError(t, err)
	ended, added := make(chan error, len(origins)), make([]bool, len(origins))
	for i, d := range origins {
		go func() {
			_, first, err := d.AddRelease(ctx, store.Release{
				Version: "1.4.0", Digest: digestOf(nil), Signers: []store.ReleaseSigner{{KeyID: fmt.Sprint(i)}},
			})
			added[i] = first
			ended <- err
		}()
		waitForLocks(t, d, i+1, ended)
	}
	noError(t, holding.Rollback())
	for range origins {
		if err := <-ended; err != nil {
			t.Errorf("add the release: %v", err)
		}
	}
	r := must(origins[0].ReleaseOf(ctx, digestOf(nil)))(t)
	if want := []store.ReleaseSigner{{KeyID: "0"}, {KeyID: "1"}}; !slices.Equal(r.Signers, want) || !added[0] || added[1] {
		t.Errorf("signers %v, want %v; added %v", r.Signers, want, added)
	}
	entries, _, err := origins[0].Audits(ctx, AuditFilter{Target: r.ID}, store.Page{})
	if noError(t, err); len(entries) != 2 || entries[0].Action != "release.sign" || entries[1].Action != "release.create" {
		t.Errorf("audit log %v", entries)
	}
}

package command

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/edge/hint"
	"partneredge/edge/origin"
	"partneredge/edge/origin/backup"
	"partneredge/edge/origin/natsauth"
	"partneredge/edge/webhook/secrets"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/db"
	"partneredge/store/durable"
)

// makeOrigin makes a directory as an origin leaves it.
func makeOrigin(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, noSeeds := natsauth.Open(filepath.Join(dir, natsFolder))
	sealer, noKeys := secrets.Load(filepath.Join(dir, secretsFile))
	if err := errors.Join(noSeeds, noKeys, os.WriteFile(filepath.Join(dir, adminTokenFile), []byte(strings.Repeat("t", 32)), 0o600)); err != nil {
		t.Fatal(err)
	}
	records, err := central.Open(t.Context(), central.Config{URL: filepath.Join(dir, databaseFile), Secrets: sealer})
	if err == nil {
		err = records.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hinted reports whether an error comes with advice.
func hinted(err error) bool {
	_, ok := errors.AsType[*hint.Error](err)
	return ok
}

// TestBackupHasEveryKey backs origins up whose keys lie elsewhere, by links or by flags, and
// compares each key with the one that is restored. Where one is not found, there is no backup.
func TestBackupHasEveryKey(t *testing.T) {
	t.Parallel()
	// moved moves a part of an origin's directory away.
	moved := func(t *testing.T, dir, name string) (to string) {
		t.Helper()
		to = filepath.Join(filepath.Dir(dir), "elsewhere-"+name)
		if err := os.Rename(filepath.Join(dir, name), to); err != nil {
			t.Fatal(err)
		}
		return to
	}
	link := func(t *testing.T, to, from string) {
		t.Helper()
		if err := os.Symlink(to, from); err != nil {
			t.Skip("NOT TESTED: symbolic links:", err)
		}
	}
	for name, tt := range map[string]struct {
		move func(t *testing.T, b *backupJob)
		want string // of the error; "": none
	}{
		"all in the directory": {move: func(*testing.T, *backupJob) {}},
		"the directory is a link": {move: func(t *testing.T, b *backupJob) {
			link(t, b.dir, b.dir+"-link")
			b.dir += "-link"
		}},
		"parts are links": {move: func(t *testing.T, b *backupJob) {
			for _, part := range []string{natsFolder, secretsFile, adminTokenFile, databaseFile} {
				link(t, moved(t, b.dir, part), filepath.Join(b.dir, part))
			}
		}},
		"files of a folder are links": {move: func(t *testing.T, b *backupJob) {
			nats := filepath.Join(b.dir, natsFolder)
			for _, seed := range []string{natsauth.OperatorSeed, natsauth.AccountSeed} {
				link(t, moved(t, nats, seed), filepath.Join(nats, seed))
			}
		}},
		"flags name them": {move: func(t *testing.T, b *backupJob) {
			b.natsKeys, b.secretsFile, b.tokenFile = moved(t, b.dir, natsFolder), moved(t, b.dir, secretsFile), moved(t, b.dir, adminTokenFile)
		}},
		"seeds are elsewhere": {move: func(t *testing.T, b *backupJob) { moved(t, b.dir, natsFolder) }, want: "nats/operator.seed, nats/account.seed, nats/system.seed not found"},
		"a link leads nowhere": {move: func(t *testing.T, b *backupJob) {
			moved(t, b.dir, secretsFile)
			link(t, "none", filepath.Join(b.dir, secretsFile))
		}, want: "secrets.keys not found"},
		"the token is elsewhere": {move: func(t *testing.T, b *backupJob) { moved(t, b.dir, adminTokenFile) }, want: "admin.token not found"},
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			b := backupJob{dir: filepath.Join(outer, "origin")}
			makeOrigin(t, b.dir)
			keys := map[string]string{}
			for _, name := range missingKeys(func(string) bool { return false }) {
				text, err := os.ReadFile(filepath.Join(b.dir, name))
				if err != nil {
					t.Fatal(err)
				}
				keys[name] = string(text)
			}
			tt.move(t, &b)
			file := filepath.Join(outer, "backup")
			err := b.write(t.Context(), file)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || !hinted(err) {
					t.Errorf("%v, want %s", err, tt.want)
				}
				if _, err := os.Stat(file); err == nil {
					t.Error("there is a backup all the same")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			restored := filepath.Join(outer, "restored")
			if err := restore(t.Context(), file, restored, "", slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			for name, want := range keys {
				if got, err := os.ReadFile(filepath.Join(restored, name)); err != nil || string(got) != want {
					t.Errorf("%s is not as it was: %v", name, err)
				}
			}
		})
	}
}

// TestRestoreWithoutKeys: a backup from before all keys had to be in it is not restored with
// others in their place.
func TestRestoreWithoutKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "origin")
	makeOrigin(t, dir)
	if err := os.RemoveAll(filepath.Join(dir, natsFolder)); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, nil))
	if err := judgeKeys(dir, log); err != nil || !strings.Contains(said.String(), "nats/operator.seed") {
		t.Errorf("without seeds: %v, %s", err, said.String())
	}
	if err := os.Remove(filepath.Join(dir, secretsFile)); err != nil {
		t.Fatal(err)
	}
	if err := judgeKeys(dir, log); err == nil || !strings.Contains(err.Error(), secretsFile) || !hinted(err) {
		t.Errorf("without the keys of secrets: %v", err)
	}
}

// TestRestoreByTheHint restores a backup that lacks keys as the refusal says: by way of another,
// so that the origin knows that it was restored.
func TestRestoreByTheHint(t *testing.T) {
	tar, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("NOT TESTED: whether a backup that lacks keys is restored by the hint:", err)
	}
	outer := t.TempDir()
	dir, unpacked, file := filepath.Join(outer, "origin"), filepath.Join(outer, "unpacked"), filepath.Join(outer, "backup")
	makeOrigin(t, dir)
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	old, err := backup.NewWriter(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(backup.Walk(dir, func(name, from string) error {
		if name == secretsFile {
			return nil
		}
		return old.File(name, from)
	}), old.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	err = restore(t.Context(), file, filepath.Join(outer, "refused"), "", log)
	if advised, ok := errors.AsType[*hint.Error](err); !ok || !strings.Contains(advised.Advice, "edge backup") {
		t.Fatalf("%v, with a hint that leads past edge restore", err)
	}
	keys, err := os.ReadFile(filepath.Join(dir, secretsFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(unpacked, 0o700); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.CommandContext(t.Context(), tar, "-xzf", file, "-C", unpacked).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	whole, restored := filepath.Join(outer, "whole"), filepath.Join(outer, "restored")
	if err := errors.Join(
		os.WriteFile(filepath.Join(unpacked, secretsFile), keys, 0o600),
		backupJob{dir: unpacked}.write(t.Context(), whole),
		restore(t.Context(), whole, restored, "", log),
	); err != nil {
		t.Fatal(err)
	}
	records, err := central.Open(t.Context(), central.Config{URL: filepath.Join(restored, databaseFile)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = records.Close() }()
	if entries, _, err := records.Audits(t.Context(), central.AuditFilter{}, store.Page{}); err != nil || len(entries) != 1 || entries[0].Action != "database.restore" {
		t.Errorf("the audit log has %+v, %v", entries, err)
	}
}

// TestDatabaseOfALaterVersion: an origin that goes back to an earlier version says of which one
// `edge restore` must be.
func TestDatabaseOfALaterVersion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "origin")
	makeOrigin(t, dir)
	file := filepath.Join(dir, databaseFile)
	later, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	if _, err := later.Exec(`INSERT INTO schema_migrations SELECT max(number) + 1, 'of tomorrow', 0 FROM schema_migrations`); err != nil {
		t.Fatal(err)
	}
	_, starts := startOrigin(t.Context(), originConfig{Config: origin.Config{Dir: dir}})
	for what, err := range map[string]error{
		"start": starts, "restore": renumber(t.Context(), file, filepath.Join(dir, secretsFile), slog.New(slog.DiscardHandler)),
	} {
		if !errors.Is(err, db.ErrNewer) || !hinted(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestKilledBackups: what a backup and a restore have left that were killed goes with the next.
func TestKilledBackups(t *testing.T) {
	if !durable.Locks {
		t.Skip("NOT TESTED: this system has no locks, and nothing is removed")
	}
	outer := t.TempDir()
	dir, file := filepath.Join(outer, "origin"), filepath.Join(outer, "backups", "file")
	makeOrigin(t, dir)
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	leave := func(in string, make func(string) (string, func() error, error)) {
		t.Helper()
		killed, remove, err := make(in)
		if err != nil {
			t.Fatal(err)
		}
		aside := filepath.Join(t.TempDir(), "aside") // as if it was killed: its folder stays, unlocked
		if err := errors.Join(os.WriteFile(filepath.Join(killed, secretsFile), []byte("secret"), 0o600),
			os.Rename(killed, aside), remove(), os.Rename(aside, killed)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) {
		t.Helper()
		var said strings.Builder
		if code := Main(t.Context(), "test", args, io.Discard, &said); code != 0 {
			t.Fatalf("edge %s: %d, %s", strings.Join(args, " "), code, said.String())
		}
	}
	leave(filepath.Dir(file), backup.WorkFolder)
	run("backup", "--data", dir, "--to", file)
	leave(outer, backup.RestoreFolder)
	run("restore", "--from", file, "--data", filepath.Join(outer, "restored"))
	for _, in := range []string{outer, filepath.Dir(file)} {
		if left, err := filepath.Glob(filepath.Join(in, ".*")); err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	}
}

// TestBackupWhileKeysChange: there is no backup where the old key of secrets goes, or a new
// one comes, while the database is copied, and none that was there before is lost.
func TestBackupWhileKeysChange(t *testing.T) {
	for _, flag := range []bool{false, true} {
		outer := t.TempDir()
		b := backupJob{dir: filepath.Join(outer, "origin")}
		makeOrigin(t, b.dir)
		keys := filepath.Join(b.dir, secretsFile)
		if flag {
			b.secretsFile = filepath.Join(outer, "elsewhere")
			if err := os.Rename(keys, b.secretsFile); err != nil {
				t.Fatal(err)
			}
			keys = b.secretsFile
		}
		file := filepath.Join(outer, "backup")
		if err := os.WriteFile(file, []byte("earlier"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.snapshot = func(ctx context.Context, file, copied string) error {
			return errors.Join(db.Snapshot(ctx, file, copied), os.WriteFile(keys, []byte("new:"+strings.Repeat("5e", 32)+"\n"), 0o600))
		}
		err := b.write(t.Context(), file)
		if err == nil || !strings.Contains(err.Error(), "secrets.keys changed") || !hinted(err) {
			t.Errorf("by a flag: %v: %v", flag, err)
		}
		if left, err := os.ReadFile(file); string(left) != "earlier" {
			t.Errorf("the earlier backup: %v", err)
		}
		b.snapshot = nil
		if err := b.write(t.Context(), file); err != nil {
			t.Errorf("once more: %v", err)
		}
	}
}

// TestBackupEnds: a backup that is to end while it packs the database ends without one, with the
// earlier one as it was and nothing else left.
func TestBackupEnds(t *testing.T) {
	outer := t.TempDir()
	b := backupJob{dir: filepath.Join(outer, "origin")}
	makeOrigin(t, b.dir)
	folder := filepath.Join(outer, "backups")
	file := filepath.Join(folder, "backup")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(file, []byte("earlier"), 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	b.snapshot = func(ctx context.Context, file, copied string) error {
		defer end()
		return db.Snapshot(ctx, file, copied)
	}
	if err := b.write(ctx, file); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), databaseFile) {
		t.Errorf("the backup ends by %v, not while it packs the database", err)
	}
	if text, err := os.ReadFile(file); string(text) != "earlier" {
		t.Errorf("the earlier backup is %d bytes, %v", len(text), err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}

	ctx, end = context.WithCancel(t.Context())
	b.snapshot = db.Snapshot
	if err := b.print(ctx, writeThen(end)); !errors.Is(err, context.Canceled) {
		t.Errorf("a backup that is printed ends by %v", err)
	}
	if err := b.write(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := restore(ctx, file, filepath.Join(outer, "restored"), "", slog.New(slog.DiscardHandler)); err == nil || err.Error() != context.Canceled.Error() {
		t.Errorf("a restore ends by %v", err)
	}
}

// writeThen calls a function at each write.
type writeThen func()

func (f writeThen) Write(b []byte) (int, error) { f(); return len(b), nil }

// TestBackupsInTheDirectory: a backup beside the origin's files has none of the earlier ones.
func TestBackupsInTheDirectory(t *testing.T) {
	outer := t.TempDir()
	b := backupJob{dir: filepath.Join(outer, "origin")}
	makeOrigin(t, b.dir)
	folder := filepath.Join(b.dir, "backups")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "readme"), []byte("kept"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"monday", "tuesday", "backups/wednesday"} {
		if err := b.write(t.Context(), filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	restored := filepath.Join(outer, "restored")
	if err := restore(t.Context(), filepath.Join(folder, "wednesday"), restored, "", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"monday": false, "tuesday": false, "backups/wednesday": false, "backups/readme": true, secretsFile: true} {
		if _, err := os.Stat(filepath.Join(restored, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
}

// TestBackupOverTheOrigin: no backup takes the place of a file of the origin, whether that is
// there or not yet, lies elsewhere, or is named another way; an earlier backup does.
func TestBackupOverTheOrigin(t *testing.T) {
	outer := t.TempDir()
	b := backupJob{dir: filepath.Join(outer, "origin"), tokenFile: filepath.Join(outer, "token"), secretsFile: filepath.Join(outer, "keys"), natsKeys: filepath.Join(outer, "nats")}
	makeOrigin(t, b.dir)
	for from, to := range map[string]string{adminTokenFile: b.tokenFile, secretsFile: b.secretsFile, natsFolder: b.natsKeys} {
		if err := os.Rename(filepath.Join(b.dir, from), to); err != nil {
			t.Fatal(err)
		}
	}
	backedUp := filepath.Join(b.dir, "backup")
	other := filepath.Join(outer, "linked")
	if err := errors.Join(os.Mkdir(filepath.Join(b.dir, "releases"), 0o700),
		os.WriteFile(filepath.Join(b.dir, "releases", "blob"), []byte("blob"), 0o600),
		os.WriteFile(filepath.Join(b.dir, "lock"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(b.dir, other); err != nil {
		t.Skip("NOT TESTED: symbolic links:", err)
	}
	for _, own := range []string{
		filepath.Join(b.dir, databaseFile), filepath.Join(b.dir, databaseFile+"-wal"), filepath.Join(b.dir, "lock"), filepath.Join(b.dir, "origin.json"),
		filepath.Join(b.dir, adminTokenFile), filepath.Join(b.dir, "releases", "blob"), filepath.Join(other, databaseFile), filepath.Join(other, databaseFile+"-shm"),
		b.tokenFile, b.secretsFile, filepath.Join(b.natsKeys, natsauth.OperatorSeed),
	} {
		before, missing := os.ReadFile(own)
		err := b.write(t.Context(), own)
		if err == nil || !strings.Contains(err.Error(), "of the origin itself") || !hinted(err) {
			t.Errorf("a backup to %s: %v", own, err)
		}
		if after, err := os.ReadFile(own); string(after) != string(before) || (err == nil) != (missing == nil) {
			t.Errorf("a backup has changed %s", own)
		}
	}
	for range 2 {
		if err := b.write(t.Context(), backedUp); err != nil {
			t.Error(err)
		}
	}
}

// TestRestoreHere: the folder of a restore may be the present one.
func TestRestoreHere(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if got, err := newFolder("gone/../new"); err != nil || got != filepath.Join(dir, "new") {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := newFolder("."); err != nil || got != dir {
		t.Errorf("%q, %v, want %q", got, err, dir)
	}
}

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"partneredge/edge/origin/backup"
	"partneredge/edge/webhook/secrets"
	"partneredge/store"
	"partneredge/store/central"
)

// Names in an origin's directory.
const (
	databaseFile   = "origin.db"
	adminTokenFile = "admin.token"
	secretsFile    = "secrets.keys"
)

// backupJob is what an origin's backup is made of.
type backupJob struct {
	dir, database          string // database "": SQLite in dir
	tokenFile, secretsFile string // "": in dir
}

func runBackup(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags("backup", "edge backup --data DIR --to FILE [flags]", stderr)
	var b backupJob
	f.StringVar(&b.dir, "data", "", "`DIR` of the origin, which may be running")
	to := f.String("to", "", "`FILE` to write; it holds every key of the origin, so keep it as you keep those")
	f.StringVar(&b.database, "database", "", "postgres://… `URL` that the origin has its database at, which is then left to pg_dump (default: SQLite, DIR/origin.db)")
	f.StringVar(&b.tokenFile, "admin-token-file", "", "`FILE` with the admin token, as of edge origin (default DIR/admin.token)")
	f.StringVar(&b.secretsFile, "secrets-file", "", "`FILE` of the keys that signing secrets are sealed with, as of edge origin (default DIR/secrets.keys)")
	if err := f.parse(args); err != nil {
		return err
	}
	if err := f.required("data", "to"); err != nil {
		return err
	}
	if err := b.write(ctx, *to); err != nil {
		return fmt.Errorf("backing up: %w", err)
	}
	fmt.Fprintf(stdout, "edge backup: %s\n", *to)
	if b.database != "" {
		fmt.Fprintln(stderr, "The database is not in it: take that with pg_dump, before this.")
	}
	return nil
}

// write makes the file to, whole or not at all.
func (b backupJob) write(ctx context.Context, to string) (err error) {
	work, err := os.MkdirTemp(filepath.Dir(to), ".backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	whole := filepath.Join(work, "whole")
	out, err := os.OpenFile(whole, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() // a second time where all went well
	a, err := backup.NewWriter(out)
	if err != nil {
		return err
	}
	// The database first: it names nothing that is not among the files by then.
	if b.database == "" {
		if err := b.addDatabase(ctx, a, filepath.Join(work, databaseFile)); err != nil {
			return err
		}
	}
	if err := b.addFiles(a); err != nil {
		return err
	}
	if err := errors.Join(a.Close(), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(whole, to)
}

func (b backupJob) addDatabase(ctx context.Context, a *backup.Writer, copied string) error {
	file := filepath.Join(b.dir, databaseFile)
	if _, err := os.Stat(file); err != nil {
		return hint(err, "is --data the directory of an origin? One on PostgreSQL needs --database")
	}
	if err := central.Snapshot(ctx, file, copied); err != nil {
		return err
	}
	return a.File(databaseFile, copied)
}

// addFiles adds what is in the directory, and the files that lie elsewhere.
func (b backupJob) addFiles(a *backup.Writer) error {
	elsewhere := map[string]string{adminTokenFile: b.tokenFile, secretsFile: b.secretsFile}
	err := filepath.WalkDir(b.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == b.dir {
			return err
		}
		name, err := filepath.Rel(b.dir, path)
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(entry.Name(), "."): // not yet what it will be
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular(), ofTheProcess(name), elsewhere[name] != "":
			return nil
		}
		return a.File(filepath.ToSlash(name), path)
	})
	if err != nil {
		return err
	}
	for name, path := range elsewhere {
		if path == "" {
			if _, err := os.Stat(filepath.Join(b.dir, name)); err != nil {
				return hint(err, "name it with --admin-token-file or --secrets-file, as for edge origin")
			}
			continue
		}
		if err := a.File(name, path); err != nil {
			return err
		}
	}
	return nil
}

// ofTheProcess tells whether a file is one that a running origin has for itself,
// or its database, of which a copy is taken instead.
func ofTheProcess(name string) bool {
	return name == "lock" || name == "origin.json" || strings.HasPrefix(name, databaseFile)
}

func runRestore(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags("restore", "edge restore --from FILE --data DIR [flags]", stderr)
	from := f.String("from", "", "`FILE` that edge backup wrote")
	dir := f.String("data", "", "`DIR` to make, of an origin that does not run yet")
	database := f.String("database", "", "postgres://… `URL` of a database that pg_restore has filled (default: SQLite, DIR/origin.db, from the backup)")
	f.logging(slog.LevelWarn)
	if err := f.parse(args); err != nil {
		return err
	}
	if err := f.required("from", "data"); err != nil {
		return err
	}
	if err := restore(ctx, *from, *dir, *database, f.logger()); err != nil {
		return fmt.Errorf("restoring: %w", err)
	}
	fmt.Fprintf(stdout, "edge restore: %s\n", *dir)
	fmt.Fprintln(stderr, "What came after the backup is not in it: revoke again the keys, tokens and nodes that were revoked since.")
	return nil
}

// restore makes dir, whole or not at all, and has the database number its
// changes anew.
func restore(ctx context.Context, from, dir, database string, log *slog.Logger) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if left, err := os.ReadDir(dir); err == nil && len(left) > 0 {
		return hint(fmt.Errorf("%s is not empty", dir), "stop the origin there and move its directory away, or restore into another")
	}
	dir = filepath.Clean(dir)
	work, err := os.MkdirTemp(filepath.Dir(dir), ".restore-") // 0700
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }() // nothing is there any more once renamed
	if err := backup.Read(in, work); err != nil {
		return err
	}
	file := filepath.Join(work, databaseFile)
	_, missing := os.Stat(file)
	switch {
	case database == "" && missing != nil:
		return hint(errors.New("the backup is of an origin on PostgreSQL"), "fill a database with pg_restore, and name it with --database")
	case database != "" && missing == nil:
		return hint(errors.New("the backup is of an origin on SQLite"), "leave --database away")
	case database == "":
		database = file
	}
	if err := numberAnew(ctx, database, filepath.Join(work, secretsFile), log); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return err
	}
	return os.Rename(work, dir)
}

func numberAnew(ctx context.Context, database, keys string, log *slog.Logger) error {
	sealer, err := secrets.Load(keys)
	if err != nil {
		return err
	}
	db, err := central.Open(ctx, central.Config{URL: database, Secrets: sealer, Log: log})
	if err != nil {
		return err
	}
	actor := store.Actor{ID: "restore", Name: "edge restore", Role: store.RoleAdmin}
	return errors.Join(db.Restored(central.WithActor(ctx, actor)), db.Close())
}

package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"partneredge/edge/hint"
	"partneredge/edge/origin/backup"
	"partneredge/edge/origin/natsauth"
	"partneredge/edge/service"
	"partneredge/store/central/db"
	"partneredge/store/durable"
)

// backupJob names what a backup is made of.
type backupJob struct {
	dir, database                    string // database "": SQLite in dir
	tokenFile, secretsFile, natsKeys string // "": in dir

	// snapshot copies the database. nil: db.Snapshot.
	snapshot func(ctx context.Context, file, copied string) error
}

func newBackup() *cobra.Command {
	var b backupJob
	var to string
	cmd := newCommand("backup --data DIR --to FILE", "write an origin's database and keys to one file, while it runs", func(cmd *cobra.Command, _ []string) (err error) {
		if err := required(cmd, "data", "to"); err != nil {
			return err
		}
		folder, file := b.dir, ""
		if to != "-" {
			if file, err = outFile(to, "--to - writes to standard output"); err != nil {
				return fmt.Errorf("backing up: %w", err)
			}
			folder = filepath.Dir(file)
		}
		if err := backup.RemoveStale(folder); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "What a backup that was killed has left stays there: %v\n", err)
		}
		if to == "-" {
			err = b.print(cmd.Context(), cmd.OutOrStdout())
		} else if err = b.write(cmd.Context(), file); err == nil {
			fmt.Fprintf(cmd.OutOrStdout(), "edge backup: %s\n", to)
		}
		if err != nil {
			return fmt.Errorf("backing up: %w", err)
		}
		if b.database != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), "The database is not in it: take that with pg_dump, before this.")
		}
		return nil
	})
	flags := cmd.Flags()
	flags.StringVar(&b.dir, "data", "", "`DIR` of the origin, which may be running")
	flags.StringVar(&to, "to", "", "`FILE` to write, - for standard output; it holds every key of the origin, so keep it as you keep those")
	flags.StringVar(&b.database, "database", "", "postgres://… `URL` that the origin has its database at, which is then left to pg_dump (default: SQLite, DIR/origin.db)")
	flags.StringVar(&b.tokenFile, "admin-token-file", "", "`FILE` with the admin token, as of edge origin (default DIR/admin.token)")
	flags.StringVar(&b.secretsFile, "secrets-file", "", "`FILE` of the keys that signing secrets are sealed with, as of edge origin (default DIR/secrets.keys)")
	flags.StringVar(&b.natsKeys, "nats-keys", "", "`DIR` of the keys that sign nodes' credentials, as of edge origin (default DIR/nats)")
	return cmd
}

// write makes the file to, whole or not at all.
func (b backupJob) write(ctx context.Context, to string) error {
	own, err := b.isOwn(to)
	if err != nil {
		return err
	}
	if own {
		return hint.Add(fmt.Errorf("%s is a file of the origin itself", to), "name another with --to")
	}
	return b.build(ctx, filepath.Dir(to), func(whole string) error { return durable.Rename(whole, to) })
}

// isOwn reports whether a name is that of a file of the origin: of one that is there but no
// backup, or of one that it makes.
func (b backupJob) isOwn(name string) (own bool, err error) {
	dir, err := os.Stat(b.dir)
	if err != nil {
		return false, err
	}
	folder, err := os.Stat(filepath.Dir(name))
	if err != nil {
		return false, err
	}
	base := filepath.Base(name)
	if os.SameFile(dir, folder) && (isTransient(base) || base == adminTokenFile || base == secretsFile) {
		return true, nil
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	judge := func(_, from string) error {
		if other, err := os.Stat(from); err != nil || !os.SameFile(info, other) {
			return nil // it has just gone, or is another
		}
		is, err := backup.Is(from)
		own = own || !is
		return err
	}
	err = backup.Walk(b.dir, judge)
	if b.natsKeys != "" {
		err = errors.Join(err, backup.Walk(b.natsKeys, judge))
	}
	for _, file := range []string{b.tokenFile, b.secretsFile} {
		if file != "" {
			err = errors.Join(err, judge("", file))
		}
	}
	return own, err
}

// print writes the file to out once it is whole: nothing of one that could not be made.
func (b backupJob) print(ctx context.Context, out io.Writer) error {
	defer service.SurviveBrokenPipes()() // else what it has made would stay
	return b.build(ctx, b.dir, func(whole string) error {
		f, err := os.Open(whole)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(out, backup.Reader(ctx, f))
		return err
	})
}

// build makes the file in a folder, and hands it to done.
func (b backupJob) build(ctx context.Context, folder string, done func(whole string) error) (err error) {
	work, remove, err := backup.WorkFolder(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	whole := filepath.Join(work, "whole")
	out, err := os.OpenFile(whole, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() // a second time where all went well
	a, err := backup.NewWriter(ctx, out)
	if err != nil {
		return err
	}
	// The keys first: an old one may be removed once the database is copied that needs it.
	keys, err := b.sealingKeys()
	if err != nil {
		return err
	}
	files := b
	if keys != nil {
		files.secretsFile = filepath.Join(work, secretsFile)
		if err := durable.WriteFile(files.secretsFile, keys, 0o600); err != nil {
			return err
		}
	}
	// The database before the files: it names nothing that is not among them by then.
	if b.database == "" {
		if err := b.addDatabase(ctx, a, filepath.Join(work, databaseFile)); err != nil {
			return err
		}
	}
	if err := files.addFiles(a); err != nil {
		return err
	}
	if now, err := b.sealingKeys(); err != nil || !bytes.Equal(now, keys) {
		return cmp.Or(err, hint.Add(fmt.Errorf("%s changed meanwhile: what the database has sealed may not open with it", secretsFile), "make the backup again"))
	}
	if err := errors.Join(a.Close(), out.Sync(), out.Close(), ctx.Err()); err != nil {
		return err
	}
	return done(whole)
}

// sealingKeys reads the file of the keys that secrets are sealed with; nil where there is none.
func (b backupJob) sealingKeys() ([]byte, error) {
	keys, err := os.ReadFile(cmp.Or(b.secretsFile, filepath.Join(b.dir, secretsFile)))
	if errors.Is(err, fs.ErrNotExist) { // addFiles says that it is missing
		return nil, nil
	}
	return keys, err
}

func (b backupJob) addDatabase(ctx context.Context, a *backup.Writer, copied string) error {
	file := filepath.Join(b.dir, databaseFile)
	if _, err := os.Stat(file); err != nil {
		return hint.Add(err, "is --data the directory of an origin? One on PostgreSQL needs --database")
	}
	snapshot := b.snapshot
	if snapshot == nil {
		snapshot = db.Snapshot
	}
	if err := snapshot(ctx, file, copied); err != nil {
		return err
	}
	return a.File(databaseFile, copied)
}

// addFiles adds the files in the directory but backups, each of which would have all the
// earlier ones in it, and those that lie elsewhere. It fails unless all keys are among them.
func (b backupJob) addFiles(a *backup.Writer) error {
	elsewhere := map[string]string{adminTokenFile: b.tokenFile, secretsFile: b.secretsFile, natsFolder: b.natsKeys}
	added := make(map[string]bool)
	file := func(name, from string) error {
		added[name] = true
		return a.File(name, from)
	}
	if err := backup.Walk(b.dir, func(name, from string) error {
		top, _, _ := strings.Cut(name, "/")
		if isTransient(name) || elsewhere[top] != "" {
			return nil
		}
		if is, err := backup.Is(from); err != nil || is {
			return err
		}
		return file(name, from)
	}); err != nil {
		return err
	}
	for _, name := range []string{adminTokenFile, secretsFile} {
		if elsewhere[name] == "" {
			continue
		}
		if err := file(name, elsewhere[name]); err != nil {
			return err
		}
	}
	if b.natsKeys != "" {
		if err := backup.Walk(b.natsKeys, func(name, from string) error { return file(path.Join(natsFolder, name), from) }); err != nil {
			return err
		}
	}
	if missing := missingKeys(func(name string) bool { return added[name] }); len(missing) > 0 {
		return hint.Add(fmt.Errorf("%s not found in %s", strings.Join(missing, ", "), b.dir),
			"name what lies elsewhere with --admin-token-file, --secrets-file or --nats-keys, as for edge origin")
	}
	return nil
}

// missingKeys returns the names of the files of keys that a backup must have and has not.
func missingKeys(has func(name string) bool) (missing []string) {
	names := []string{adminTokenFile, secretsFile}
	for _, seed := range []string{natsauth.OperatorSeed, natsauth.AccountSeed, natsauth.SystemSeed} {
		names = append(names, path.Join(natsFolder, seed))
	}
	return slices.DeleteFunc(names, has)
}

// isTransient reports whether a file is one that a running origin needs for itself,
// or belongs to its database, of which addDatabase takes a copy.
func isTransient(name string) bool {
	return name == "lock" || name == "origin.json" || strings.HasPrefix(name, databaseFile)
}

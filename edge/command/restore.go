package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"partneredge/edge/hint"
	"partneredge/edge/origin/backup"
	"partneredge/edge/webhook/secrets"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/audit"
	"partneredge/store/durable"
)

func newRestore() *cobra.Command {
	var from, dir, database string
	var logs logFlags
	cmd := newCommand("restore --from FILE --data DIR", "make an origin's directory from a backup", func(cmd *cobra.Command, _ []string) error {
		if err := required(cmd, "from", "data"); err != nil {
			return err
		}
		log, err := logs.logger(cmd)
		if err != nil {
			return err
		}
		if err := restore(cmd.Context(), from, dir, database, log); err != nil {
			return fmt.Errorf("restoring: %w", err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "edge restore: %s\n", dir)
		fmt.Fprintln(cmd.ErrOrStderr(), `What came after the backup is not in it. Once the origin is started:
- revoke again the keys, tokens, nodes and regions' servers that were revoked since
- enrol again the nodes and regions' servers that were enrolled since
- delete again what was deleted since: edge tombstone apply FILE`)
		return nil
	})
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "`FILE` that edge backup wrote")
	flags.StringVar(&dir, "data", "", "`DIR` to make, of an origin that does not run yet")
	flags.StringVar(&database, "database", "", "postgres://… `URL` of a database that pg_restore has filled (default: SQLite, DIR/origin.db, from the backup)")
	logs.register(flags, slog.LevelWarn)
	return cmd
}

// restore makes dir, whole or not at all, and renumbers the changes in the database.
func restore(ctx context.Context, from, dir, database string, log *slog.Logger) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := judgeFlags(in, dir); err != nil {
		return err
	}
	if dir, err = newFolder(dir); err != nil {
		return err
	}
	if err := backup.RemoveStale(filepath.Dir(dir)); err != nil {
		log.Warn("what a restore that was killed has left stays there", "folder", filepath.Dir(dir), "err", err)
	}
	work, remove, err := backup.RestoreFolder(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }() // it is gone once renamed
	if err := backup.Read(backup.Reader(ctx, in), work); err != nil {
		return cmp.Or(ctx.Err(), err) // that it was ended says nothing against the file
	}
	if err := judgeKeys(work, log); err != nil {
		return err
	}
	file := filepath.Join(work, databaseFile)
	_, missing := os.Stat(file)
	switch {
	case database == "" && missing != nil:
		return hint.Add(errors.New("the backup is of an origin on PostgreSQL"), "fill a database with pg_restore, and name it with --database")
	case database != "" && missing == nil:
		return hint.Add(errors.New("the backup is of an origin on SQLite"), "leave --database away")
	case database == "":
		database = file
	}
	if err := renumber(ctx, database, filepath.Join(work, secretsFile), log); err != nil {
		return err
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty, and no file
		return fmt.Errorf("making way for %s: %w", dir, err)
	}
	if err := durable.SyncTree(work); err != nil {
		return err
	}
	return durable.Rename(work, dir)
}

// judgeFlags refuses a directory that is not empty, or is a file, and a file that is no
// backup, before anything is removed. Of a pipe it reads nothing.
func judgeFlags(in *os.File, dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return hint.Add(fmt.Errorf("%s is a file", dir), "--data names the directory to make, --from the backup")
	}
	left, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(left) > 0 {
		return hint.Add(fmt.Errorf("%s is not empty", dir), "stop the origin there and move its directory away, or restore into another")
	}
	info, err := in.Stat()
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		return err
	}
	if is, err := backup.Is(in.Name()); err != nil || !is {
		return cmp.Or(err, backup.ErrNoArchive)
	}
	_, err = in.Seek(0, io.SeekStart) // /dev/stdin may share its place with what Is has opened
	return err
}

// newFolder returns the absolute path of a folder that is yet to be made, without links. One
// that is there, and empty, it makes anew: what cannot be, as where a disk is mounted, is
// refused before anything is restored.
func newFolder(dir string) (string, error) {
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	there, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err == nil {
		err = syscall.Rmdir(dir) // never a file
	}
	if err == nil {
		err = os.Mkdir(dir, there.Mode().Perm())
	}
	if err != nil {
		return "", hint.Add(fmt.Errorf("making %s anew: %w", dir, err), "restore into a folder in it")
	}
	return dir, nil
}

// judgeKeys refuses a restored directory without the keys that secrets are sealed with, in
// whose place others would be made, and warns of other keys that it has not.
func judgeKeys(dir string, log *slog.Logger) error {
	missing := missingKeys(func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
		return err == nil
	})
	if slices.Contains(missing, secretsFile) {
		return hint.Add(fmt.Errorf("the backup lacks %s", strings.Join(missing, ", ")),
			"unpack it with tar -xzf into an empty directory, put these files there from the origin that was lost, make a backup of that directory with edge backup, and restore that")
	}
	if len(missing) > 0 {
		log.Warn("the backup lacks keys: put them there, or the origin makes others, which no node or operator has", "files", strings.Join(missing, ", "))
	}
	return nil
}

func renumber(ctx context.Context, database, keys string, log *slog.Logger) error {
	sealer, err := secrets.Load(keys)
	if err != nil {
		return err
	}
	records, err := openRecords(ctx, central.Config{URL: database, Secrets: sealer, Log: log})
	if err != nil {
		return err
	}
	actor := store.Actor{ID: "restore", Name: "edge restore", Role: store.RoleAdmin}
	return errors.Join(records.Restored(audit.WithActor(ctx, actor)), records.Close())
}

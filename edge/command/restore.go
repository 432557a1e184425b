package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"partneredge/edge/origin/backup"
	"partneredge/edge/webhook/secrets"
	"partneredge/store"
	"partneredge/store/central"
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
		fmt.Fprintln(cmd.ErrOrStderr(), "What came after the backup is not in it: revoke again the keys, tokens and nodes that were revoked since.")
		return nil
	})
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "`FILE` that edge backup wrote")
	flags.StringVar(&dir, "data", "", "`DIR` to make, of an origin that does not run yet")
	flags.StringVar(&database, "database", "", "postgres://… `URL` of a database that pg_restore has filled (default: SQLite, DIR/origin.db, from the backup)")
	logs.register(flags, slog.LevelWarn)
	return cmd
}

// restore makes dir, whole or not at all, and has the database renumber its
// changes.
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
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }() // it is gone once renamed
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
	if err := renumber(ctx, database, filepath.Join(work, secretsFile), log); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return err
	}
	return durable.Rename(work, dir)
}

func renumber(ctx context.Context, database, keys string, log *slog.Logger) error {
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

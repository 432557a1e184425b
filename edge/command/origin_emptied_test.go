package command

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"partneredge/edge/origin"
)

// TestLostDatabaseIsNoFirstStart has an origin whose database was lost beside its keys. A
// new one would know no account and no node, and which nodes were revoked.
func TestLostDatabaseIsNoFirstStart(t *testing.T) {
	for name, lose := range map[string]func(file string) error{
		"emptied": func(file string) error { return os.Truncate(file, 0) },
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			config := originConfig{Config: origin.Config{
				Dir: dir, AdminAddr: "127.0.0.1:0", NATSListen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
			}}
			run := func(what string) {
				t.Helper()
				o, err := startOrigin(ctx, config)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if err := o.stop(ctx); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			run("at first")
			file := filepath.Join(dir, databaseFile)
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := lose(file); err != nil {
				t.Fatal(err)
			}
			log := file + "-wal" // of a database that was moved away, whose last writes are in it
			if err := os.WriteFile(log, []byte("writes"), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := startOrigin(ctx, config); !errors.Is(err, errDatabaseLost) {
					t.Fatalf("without its database: %v, want %v", err, errDatabaseLost)
				}
			}
			if text, err := os.ReadFile(log); err != nil || string(text) != "writes" {
				t.Errorf("the log of the lost database has become %q, %v", text, err)
			}
			if err := errors.Join(os.Remove(log), os.WriteFile(file, whole, 0o600)); err != nil {
				t.Fatal(err)
			}
			run("with the database back")

			// Without the keys it is a first start, as one that was cut short is.
			if err := errors.Join(os.Remove(file), os.RemoveAll(filepath.Join(dir, natsFolder))); err != nil {
				t.Fatal(err)
			}
			run("anew")
		})
	}
}

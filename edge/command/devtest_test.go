package command

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
)

// startDevForTest starts what `edge dev --data dir --port 0` does, in this
// process, and leaves dir/env behind.
func startDevForTest(t *testing.T, dir string, change ...func(*devConfig)) *dev {
	t.Helper()
	modules, cache := testFiles.get(t)
	c := devConfig{
		data: dir, modules: modules, cache: cache, regions: names{"local"},
		progress: newProgress(t.Output()),
	}
	c.log = slog.New(slog.DiscardHandler)
	for _, f := range change {
		f(&c)
	}
	release, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := startDev(t.Context(), c)
	if err != nil {
		release()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.stop(context.Background()); err != nil {
			t.Errorf("stopping: %v", err)
		}
		release()
	})
	if err := writeFile(filepath.Join(dir, "env"), shellEnv(d.ready())); err != nil {
		t.Fatal(err)
	}
	return d
}

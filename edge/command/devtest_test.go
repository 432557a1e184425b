package command

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"partneredge/edge/output"
	"partneredge/edge/service"
	"partneredge/store/durable"
)

// patient has nodes wait for the origin, all for their clients, and modules compute, as long as
// they may take on a machine with other work. A lookup ends before the curl of TestReadmeTour
// gives up, and both waits of a request before the node's WriteTimeout.
func patient(c *devConfig) {
	c.readOrigin, c.writeOrigin, c.moduleCPU = 15*time.Second, 12*time.Second, 10*time.Second
	c.HandshakeTimeout = 5 * time.Minute
}

// startDevForTest starts what `edge dev --data dir --port 0` does, in this
// process, and leaves dir/env behind.
func startDevForTest(t *testing.T, dir string, change ...func(*devConfig)) *devProcess {
	t.Helper()
	modules, cache := testFiles.get(t)
	c := devConfig{
		data: dir, modules: modules, cache: cache, regions: names{"local"},
		compiling: output.NewCompiling(t.Output()),
	}
	patient(&c)
	c.Build, c.Log = "test", slog.New(slog.DiscardHandler)
	for _, f := range change {
		f(&c)
	}
	unlock, err := service.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := startDev(t.Context(), c)
	if err != nil {
		unlock()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stopDev(d); err != nil {
			t.Errorf("stopping: %v", err)
		}
		unlock()
	})
	if err := durable.WriteFile(filepath.Join(dir, "env"), shellEnv(d.ready()), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

// stopDev is d.stop with stopTime.
func stopDev(d *devProcess) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return d.started.Close(ctx)
}

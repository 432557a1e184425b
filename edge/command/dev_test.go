package command

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin"
	"partneredge/edge/output"
)

// TestDevEnrolsAgain starts `edge dev` where the credentials of its node may be of no use any
// more: then it makes others, and in any case nodes answer the keys that it prints.
func TestDevEnrolsAgain(t *testing.T) {
	t.Parallel()
	credentials := func(dir string) string { return filepath.Join(dir, "nodes", "local", "node.creds") }
	for _, tt := range []struct {
		name  string
		while func(t *testing.T, d *devProcess) // the first one runs
		after func(dir string) error            // the first one
		same  bool                              // credentials
	}{
		{name: "of use", same: true},
		{name: "revoked", while: func(t *testing.T, d *devProcess) {
			admin := &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()}
			if err := admin.Call(t.Context(), http.MethodPost, "/nodes/"+d.nodes[0].ID()+"/revoke", nil, nil); err != nil {
				t.Error(err)
			}
		}},
		{name: "of another origin", after: func(dir string) error { return os.RemoveAll(filepath.Join(dir, "origin")) }},
		{name: "damaged", after: func(dir string) error { return os.WriteFile(credentials(dir), []byte("damaged"), 0o600) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var nodes []string
			start := func(name string, then func(*testing.T, *devProcess)) {
				t.Run(name, func(t *testing.T) {
					d := startDevForTest(t, dir)
					nodes = append(nodes, d.nodes[0].ID())
					info := d.ready()
					for _, key := range []string{info.Keys.Live, info.Keys.Test} {
						known(t, info.Nodes[0].BaseURL, key)
					}
					if then != nil {
						then(t, d)
					}
				})
			}
			start("first", tt.while)
			if tt.after != nil {
				if err := tt.after(dir); err != nil {
					t.Fatal(err)
				}
			}
			start("again", nil)
			if len(nodes) != 2 || (nodes[0] == nodes[1]) != tt.same {
				t.Errorf("nodes %v, want the same: %t", nodes, tt.same)
			}
		})
	}
}

// failingDev returns the error of an `edge dev` that cannot start. Its cache is empty, so it
// would have to compile its modules.
func failingDev(t *testing.T, change func(*devConfig)) error {
	t.Helper()
	modules, _ := testFiles.get(t)
	c := devConfig{
		originConfig: originConfig{Config: origin.Config{AdminAddr: "127.0.0.1:0", Build: "test", Log: slog.New(slog.DiscardHandler)}},
		data:         t.TempDir(), modules: modules, regions: names{"local"},
	}
	change(&c)
	d, err := startDev(t.Context(), c)
	if err == nil {
		t.Fatal("it started", stopDev(d))
	}
	return err
}

// TestDevPortTaken: edge dev says that the port of a node is taken before it compiles modules.
func TestDevPortTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for i, region := range []string{"eu", "us"} {
		var out bytes.Buffer
		err := failingDev(t, func(c *devConfig) {
			c.regions, c.compiling = names{"eu", "us"}, output.NewCompiling(&out)
			c.port = taken.Addr().(*net.TCPAddr).Port - i
		})
		// The port before the one that is taken may be taken as well.
		if !errors.Is(err, syscall.EADDRINUSE) || i == 0 && !strings.Contains(err.Error(), region) || out.Len() > 0 {
			t.Errorf("the port of %s is taken: %v, after it printed %q", region, err, &out)
		}
	}
}

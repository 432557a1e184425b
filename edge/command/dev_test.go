package command

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"partneredge/edge/adminapi"
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

package command

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleasesReachProcesses: what is pushed to the origin's registry, and what is
// pulled to it from a layout, comes to run in a node that is a process of its own.
// What a rollback brings back runs after it was killed, with the origin away.
func TestReleasesReachProcesses(t *testing.T) {
	t.Parallel()
	modules, _ := testFiles.get(t)
	dir := t.TempDir()
	private, public, layout := filepath.Join(dir, "release.key"), filepath.Join(dir, "release.pub"), filepath.Join(dir, "layout")
	command := func(args ...string) string {
		t.Helper()
		var out, said strings.Builder
		if code := Main(t.Context(), "test", append([]string{"release"}, args...), &out, &said); code != 0 {
			t.Fatalf("edge release %v: exit code %d\n%s", args, code, said.String())
		}
		return out.String()
	}
	command("keygen", "--no-password", "--key", private, "--pub", public)
	s := startSite(t)
	n := enrolled(t, s.admin, filepath.Join(s.dir, "eu"), "eu", s.ready.NATSURL)
	n.start("--release-keys", public)
	key := s.key().Plaintext
	known(t, n.ready.BaseURL, key)

	command("push", "--modules", modules, "--version", "1.0.0", "--key", private, "--data", s.originDir)
	command("pack", "--modules", modules, "--version", "1.1.0", "--layout", layout)
	command("sign", "1.1.0", "--layout", layout, "--key", private)
	command("pull", "1.1.0", "--from", layout, "--data", s.originDir)
	runs := func(version string) {
		t.Helper()
		await(t, "the node to run "+version, func() bool {
			var page struct {
				Items []struct {
					Status *struct{ Running *struct{ Version string } }
				}
			}
			if err := s.admin.Call(t.Context(), "GET", "/nodes", nil, &page); err != nil {
				t.Fatal(err)
			}
			status := page.Items[0].Status
			return status != nil && status.Running != nil && status.Running.Version == version
		})
		if status := n.get(key); status != http.StatusOK {
			t.Errorf("with release %s: %d", version, status)
		}
	}
	rollout := func(version string) {
		t.Helper()
		if said := command("rollout", version, "--stages", "100", "--pause", "0s", "--canary", "0", "--wait", "--data", s.originDir); !strings.Contains(said, "1 of 1 nodes") {
			t.Errorf("rollout of %s: %s", version, said)
		}
		runs(version)
	}
	// restart kills both, and starts the node alone, which then runs what state and version say.
	restart := func(state, version string) {
		t.Helper()
		await(t, "the node to have written down what it runs", func() bool {
			kept, err := os.ReadFile(filepath.Join(n.dir, "release.json"))
			return err == nil && strings.Contains(string(kept), `"version": "`+version+`"`)
		})
		n.process.kill()
		s.origin.kill()
		n.start("--release-keys", public)
		if status := n.get(key); status != http.StatusOK {
			t.Errorf("after a restart without the origin: %d", status)
		}
		if share := n.metric(`edge_node_release\{digest="[^"]*",state="` + state + `",version="` + version + `"\}`); share != 1 {
			t.Errorf("after a restart without the origin %v of the requests go to %s", share, version)
		}
	}
	rollout("1.0.0")
	command("rollback", "--wait", "--data", s.originDir)
	runs("")
	restart("own_modules", "")
	s.startOrigin()
	runs("")

	rollout("1.0.0")
	rollout("1.1.0")
	command("rollback", "--wait", "--data", s.originDir)
	runs("1.0.0")
	restart("serving", "1.0.0")
	s.startOrigin()
	runs("1.0.0")
}

package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/host/memory"
)

// TestCompilers runs guests made by other compilers than Go's, where the machine has
// them (Debian: clang, lld, rustc, libstd-rust-dev-wasm32). With
// EDGE_REQUIRE_COMPILERS=1 it fails where one is missing.
func TestCompilers(t *testing.T) {
	rustc := "rustc"
	if _, err := os.Stat("/usr/bin/rustc"); err == nil {
		rustc = "/usr/bin/rustc" // the distribution's has the target; another in the path may not
	}
	for _, tt := range []struct {
		name string
		cmd  []string
		want string
	}{
		{"C", []string{"clang", "--target=wasm32", "-O2", "-nostdlib", "-mbulk-memory", "-msign-ext", "-mnontrapping-fptoint",
			"-Wl,--no-entry", "testdata/c/guest.c", "-o"}, "called 3"},
		{"Rust", []string{rustc, "--target=wasm32-unknown-unknown", "-O", "--crate-type=cdylib", "testdata/rust/guest.rs", "-o"},
			"called 3 with "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "guest.wasm")
			cmd := exec.Command(tt.cmd[0], append(tt.cmd[1:], out)...)
			if text, err := cmd.CombinedOutput(); err != nil {
				if os.Getenv("EDGE_REQUIRE_COMPILERS") == "1" {
					t.Fatalf("%v, and EDGE_REQUIRE_COMPILERS is set: %s", err, text)
				}
				t.Skipf("NOT TESTED, the compiler is missing or lacks the target: %v: %.200s", err, text)
			}
			wasm, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			_, m, _ := openHostile(t, wasm, memory.Auto, Limits{})
			for range 100 {
				got, err := ask(m, "/", "abc")
				if err != nil || !strings.Contains(got, tt.want) {
					t.Fatalf("got %q, %v, want %q", got, err, tt.want)
				}
			}
			pristine(t, m)
		})
	}
}

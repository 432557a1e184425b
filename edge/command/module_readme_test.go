package command

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// moduleFigures matches what differs from one run of the commands to the next.
var moduleFigures = regexp.MustCompile(`[0-9.]+ +(ms|us|s|bytes|pages)\b|"(took_ms|open_ms|call_us|pages_written|size|image)":[0-9.]+|svc_(live|test)_[A-Za-z0-9]+|127\.0\.0\.1:[0-9]+|RW[A-Za-z0-9+/=]{54}|rel_[0-9a-z]{26}|sha256:[0-9a-f]{64}|[0-9A-F]{16}|[+-]?[0-9]{6,}|[ \t]+`)

func maskModule(text string) string { return moduleFigures.ReplaceAllString(mask(text), "*") }

// TestModuleReadme types each command of wasm/README.md into a shell, outside the
// repository. With -update it writes what came out into the file.
func TestModuleReadme(t *testing.T) {
	t.Parallel()
	needShell(t, "the commands of wasm/README.md")
	modules, cache := testFiles.get(t)
	testFiles.program(t)
	work := t.TempDir()
	sh := startShell(t, work)
	sh.run(t, "trap 'for job in $(jobs -p); do kill $job; done; wait' EXIT")
	sh.run(t, "export GOPROXY=off MODULES="+modules+" XDG_CACHE_HOME="+filepath.Join(work, "cache")+" GOFLAGS="+flagsOfGuests(t))
	// The ports are whichever the program takes, and compiled modules are the test's.
	here := strings.NewReplacer(
		"edge module run ", "edge module run --listen 127.0.0.1:0 ",
		"http://127.0.0.1:8080", "$(grep -o 'http://[0-9.:]*' ../run.json | head -n 1)",
		"edge dev ", "edge dev --modules $MODULES --cache "+cache+" ",
	)
	document{path: "../../wasm/README.md", least: 20, mask: maskModule, as: here.Replace}.hold(t, sh, work)
}

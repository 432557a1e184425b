package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// moduleFigures are what differs from one run of the commands to the next.
var moduleFigures = regexp.MustCompile(`[0-9.]+ +(ms|us|s|bytes|pages)\b|"(took_ms|open_ms|call_us|pages_written|size|image)":[0-9.]+|svc_(live|test)_[A-Za-z0-9]+|127\.0\.0\.1:[0-9]+|RW[A-Za-z0-9+/=]{54}|rel_[0-9a-z]{26}|sha256:[0-9a-f]{64}|[0-9A-F]{16}|[ \t]+`)

func maskModule(text string) string { return moduleFigures.ReplaceAllString(mask(text), "*") }

// TestModuleReadme types each command of wasm/README.md into a shell, outside the
// repository. With -update it writes what came out into the file.
func TestModuleReadme(t *testing.T) {
	needShell(t, "the commands of wasm/README.md")
	const readme = "../../wasm/README.md"
	modules, cache := testFiles.get(t)
	testFiles.program(t)
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	sh := startShell(t, work)
	sh.run(t, "trap 'for job in $(jobs -p); do kill $job; done; wait' EXIT")
	sh.run(t, "export GOPROXY=off MODULES="+modules+" XDG_CACHE_HOME="+filepath.Join(work, "cache"))
	// The ports are whichever the program takes, and compiled modules are the test's.
	here := strings.NewReplacer(
		"edge module run ", "edge module run --listen 127.0.0.1:0 ",
		"http://127.0.0.1:8080", "$(grep -o 'http://[0-9.:]*' ../run.json | head -n 1)",
		"edge dev ", "edge dev --modules $MODULES --cache "+cache+" ",
	)
	var out strings.Builder
	commands := 0
	for _, p := range splitConsole(string(text)) {
		if p.command == "" {
			out.WriteString(p.text)
			continue
		}
		commands++
		typed := p
		typed.command = here.Replace(p.command)
		got := strings.ReplaceAll(sh.settleAs(t, typed, maskModule), work, "~")
		if maskModule(got) == maskModule(p.output) {
			got = p.output // an update changes only what is no longer so
		} else if !*update {
			t.Errorf("$ %s\n got: %s\nwant: %s", p.command, maskModule(got), maskModule(p.output))
		}
		out.WriteString("$ " + p.command + "\n" + got)
	}
	if commands < 20 {
		t.Errorf("%d commands, want 20 at least", commands)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(readme, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

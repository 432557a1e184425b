package command

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/store/durable"
)

// scriptCode is `code N COMMAND…`: the command has to end with this exit code.
func scriptCode(ts *testscript.TestScript, _ bool, args []string) {
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// scriptField is `field FILE NAME VAR`: sets VAR to a field of a JSON object.
func scriptField(ts *testscript.TestScript, _ bool, args []string) {
	var record map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &record))
	text, _ := record[args[1]].(string)
	if text == "" {
		ts.Fatalf("no %s", args[1])
	}
	ts.Setenv(args[2], text)
}

// scriptFirstTry is `firsttry FILE VAR`: sets VAR to the id of a delivery's first try.
func scriptFirstTry(ts *testscript.TestScript, _ bool, args []string) {
	var delivery adminapi.Delivery
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &delivery))
	if len(delivery.Tries) == 0 {
		ts.Fatalf("no try")
	}
	ts.Setenv(args[1], delivery.Tries[0].ID)
}

// scriptFirst is `first FILE VAR…`: sets each VAR to the id of one of an array, from
// the first on.
func scriptFirst(ts *testscript.TestScript, _ bool, args []string) {
	var records []struct{ ID string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &records))
	if len(records) < len(args)-1 {
		ts.Fatalf("an array of only %d", len(records))
	}
	for i, name := range args[1:] {
		ts.Setenv(name, records[i].ID)
	}
}

// scriptAddress is `address FILE`: sets EDGE_ADMIN_URL to that of an origin.json.
func scriptAddress(ts *testscript.TestScript, _ bool, args []string) {
	var ready originReady
	ts.Check(durable.ReadJSON(ts.MkAbs(args[0]), &ready))
	ts.Setenv("EDGE_ADMIN_URL", ready.AdminURL)
}

// scriptNATS is `nats FILE`: sets NATS_URL to that of an origin.json.
func scriptNATS(ts *testscript.TestScript, _ bool, args []string) {
	var ready originReady
	ts.Check(durable.ReadJSON(ts.MkAbs(args[0]), &ready))
	ts.Setenv("NATS_URL", ready.NATSURL)
}

// TestCompletionRuns has bash itself complete by the script.
func TestCompletionRuns(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Fatal(err) // which the project's own scripts need as well
	}
	completion, err := exec.Command(testFiles.program(t), "completion", "bash").Output()
	if err != nil {
		t.Fatal(err)
	}
	// Of the package bash-completion, which need not be there.
	const stub = `_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }
compopt() { :; }
`
	for typed, want := range map[string]string{
		"edge acc":                  "account",
		"edge key ro":               "rotate",
		"edge token create --ro":    "--role",
		"edge completion z":         "zsh",
		"edge key create acc_1 --r": "--rate",
	} {
		words := strings.Fields(typed)
		script := stub + string(completion) + "\nCOMP_WORDS=(" + strings.Join(words, " ") + ")\nCOMP_CWORD=" + strconv.Itoa(len(words)-1) +
			"\n__start_edge\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
		out, err := exec.Command("bash", "-c", script).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v, want %q", typed, out, err, want)
		}
	}
}

// TestEveryFlagIsDocumented holds the manual and the completion to the commands and
// their flags, and the manual to the environment that they read.
func TestEveryFlagIsDocumented(t *testing.T) {
	root := newRoot("test")
	page := manual(root)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())
		if heading := roff(cmd.CommandPath()); cmd.HasParent() && !strings.Contains(page, ".SS "+heading+"\n") && !regexp.MustCompile(`(?m)^\.B `+regexp.QuoteMeta(heading)+`( |$)`).MatchString(page) {
			t.Errorf("the manual lacks %s", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		var offered strings.Builder
		if code := Main(t.Context(), "test", append(append([]string{"__complete"}, path[1:]...), "--"), &offered, io.Discard); code != 0 {
			t.Fatalf("completing %q: exit code %d", path, code)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(page, "\n.B "+roff("--"+f.Name)) {
				t.Errorf("the manual lacks --%s of %s", f.Name, cmd.CommandPath())
			}
			if !regexp.MustCompile(`(?m)^--` + f.Name + `\b`).MatchString(offered.String()) {
				t.Errorf("the completion lacks --%s of %s", f.Name, cmd.CommandPath())
			}
		})
	}
	walk(root)
	read := 0
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`Getenv\("(EDGE_\w+)"\)`).FindAllSubmatch(text, -1) {
			read++
			if !strings.Contains(page, "\n.B "+string(m[1])+"\n") {
				t.Errorf("the manual lacks %s, which %s reads", m[1], file)
			}
		}
	}
	if read < 4 {
		t.Errorf("%d variables are read", read)
	}
}

// TestManual: the page holds no macro that man(7) does not have.
func TestManual(t *testing.T) {
	page := manual(newRoot("test"))
	for line := range strings.Lines(page) {
		macro, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch macro {
		case ".TH", ".SH", ".SS", ".TP", ".B", ".I", ".RI", ".br":
		default:
			if strings.HasPrefix(macro, ".") || strings.HasPrefix(macro, "'") {
				t.Errorf("no macro of man(7): %s", line)
			}
		}
	}
}

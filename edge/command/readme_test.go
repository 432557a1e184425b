package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/edge/webhook/signature"
	"partneredge/store/durable"
)

// TestReadmeTour types each line of the README's tour into a shell beside a
// running `edge dev`, and holds what it says against what the README says. With
// -update it writes what came out into the README.
func TestReadmeTour(t *testing.T) {
	needShell(t, "the README's tour")
	work := t.TempDir()
	d := startDevForTest(t, filepath.Join(work, "data"))
	if err := durable.WriteJSON(filepath.Join(work, "data", "dev.json"), d.ready()); err != nil { // by which commands find it
		t.Fatal(err)
	}
	sh := startShell(t, work)
	modules, _ := testFiles.get(t)
	sh.run(t, "mkdir build && ln -s "+modules+" build/modules && ln -s "+testFiles.program(t)+" build/edge")

	document{path: "../../README.md", least: 15, mask: mask, as: func(command string) string { return command }}.hold(t, sh, work)
}

// TestReadmeMapNamesPackages: the README's map names each package of the first two levels.
func TestReadmeMapNamesPackages(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n## Architecture\n")
	architecture, _, ok := strings.Cut(after, "\n## ")
	if !ok {
		t.Fatal(`the README has no section "Architecture" before others`)
	}
	rows := map[string]string{} // of the map, by the folder that each begins with
	for row := range strings.Lines(architecture) {
		if cells := strings.SplitN(row, "|", 3); len(cells) == 3 {
			for _, name := range strings.Split(cells[1], ",") {
				rows[strings.Trim(name, " `")] = cells[2]
			}
		}
	}
	for _, p := range list(t, nil, "./...") {
		levels := strings.Split(strings.TrimPrefix(p.ImportPath, module), "/")
		if len(levels) != 2 {
			continue
		}
		_, ofItsOwn := rows[strings.Join(levels, "/")]
		if !ofItsOwn && !strings.Contains(rows[levels[0]+"/"], "`"+levels[1]+"`") {
			t.Errorf("the map does not name %s", strings.Join(levels, "/"))
		}
	}
}

// document is a file of commands with their outputs.
type document struct {
	path  string
	least int                         // how many commands it has at least
	mask  func(output string) string  // puts marks in place of what differs from run to run
	as    func(command string) string // the command to type in the place of one
}

// hold types the document's commands into a shell in the folder work and holds what
// comes out against what the document says. With -update it writes that into the file.
func (d document) hold(t *testing.T, sh *shell, work string) {
	t.Helper()
	text, err := os.ReadFile(d.path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	commands := 0
	for _, p := range splitConsole(string(text)) {
		if p.command == "" {
			out.WriteString(p.text)
			continue
		}
		commands++
		typed := p
		typed.command = d.as(p.command)
		got := strings.ReplaceAll(sh.settle(t, typed, d.mask), work, "~")
		if d.mask(got) == d.mask(p.output) {
			got = p.output // an update changes only what is no longer so
		} else if !*update {
			t.Errorf("$ %s\n got: %s\nwant: %s", p.command, d.mask(got), d.mask(p.output))
		}
		out.WriteString("$ " + p.command + "\n" + got)
	}
	if commands < d.least {
		t.Errorf("%s has %d commands, want %d at least", d.path, commands, d.least)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(d.path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// part of a text: a command and its output, or what is between.
type part struct{ text, command, output string }

// splitConsole takes the blocks marked console apart.
func splitConsole(text string) (parts []part) {
	inside := false
	for line := range strings.Lines(text) {
		last := len(parts) - 1
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case line == "```console\n":
			inside = true
			parts = append(parts, part{text: line})
		case line == "```\n" && inside:
			inside = false
			parts = append(parts, part{text: line})
		case inside && isCommand:
			parts = append(parts, part{command: strings.TrimSuffix(command, "\n")})
		case inside && strings.HasSuffix(parts[last].command, "\\") && parts[last].output == "":
			parts[last].command += "\n" + strings.TrimSuffix(line, "\n")
		case inside:
			parts[last].output += line
		default:
			parts = append(parts, part{text: line})
		}
	}
	return parts
}

// mask puts marks in place of what differs from run to run.
func mask(s string) string {
	for _, m := range []struct{ pattern, mark string }{
		{`\b(acc|agt|key|ins|fir|con|lead|whs|evt|dlv|node|req|rel|rol)_[0-9a-z]{26}\b`, "${1}_*"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
		{`sha256:[0-9a-f]{12,64}`, "DIGEST"},
		{`\b[0-9a-f]{64}\b`, "SECRET"},
		{`\b[0-9]{7,} bytes|size +[0-9]{7,}`, "SIZE"},
		{`\b[0-9A-F]{16}\b`, "KEY"},
		{`(?i)(date|ratelimit|x-ratelimit-remaining|x-ratelimit-reset-ms|content-length): [^\r\n]*`, "$1: *"},
		{`\r`, ""},
	} {
		s = regexp.MustCompile(m.pattern).ReplaceAllString(s, m.mark)
	}
	return sortHeader(strings.TrimSpace(s))
}

// sortHeader puts the header lines of an HTTP answer in order: theirs is nobody's
// promise.
func sortHeader(s string) string {
	header, body, found := strings.Cut(s, "\n\n")
	if !found || !strings.HasPrefix(s, "HTTP/") {
		return s
	}
	lines := strings.Split(header, "\n")
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n") + "\n\n" + body
}

// shell is one sh that lives as long as the test.
type shell struct {
	in  io.Writer
	out *bufio.Reader
}

func startShell(t *testing.T, dir string) *shell {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, "sh")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "no_proxy=*")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		err := cmd.Wait()
		cancel()
		if err != nil {
			t.Errorf("the shell: %v\n%s", err, complaints.String())
		}
	})
	return &shell{in, bufio.NewReader(out)}
}

// run types one command, with a silent curl, and returns what it prints.
func (s *shell) run(t *testing.T, command string) string {
	t.Helper()
	const end = "-- end of output --"
	command = strings.ReplaceAll(command, "curl ", "curl -sS --max-time 20 ")
	if _, err := fmt.Fprintf(s.in, "%s\nprintf '\\n%s\\n'\n", command, end); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("running %s: %v", command, errors.Join(err, context.Cause(t.Context())))
		}
		if line == end+"\n" {
			if text := strings.TrimSpace(out.String()); text != "" {
				return text + "\n"
			}
			return ""
		}
		out.WriteString(strings.ReplaceAll(line, "\r", ""))
	}
}

// settle runs a command, and one that only reads again until it says what the
// document says: nodes learn of the origin's changes a moment later.
func (s *shell) settle(t *testing.T, p part, mask func(string) string) string {
	t.Helper()
	reads := strings.HasPrefix(p.command, "curl ") && !strings.Contains(p.command, " -d ") && !strings.Contains(p.command, " -X ")
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	most := time.Minute
	if *update { // it may well say something else
		most = 5 * time.Second
	}
	deadline := time.After(most)
	for {
		got := s.run(t, p.command)
		if !reads || mask(got) == mask(p.output) || p.output == "" {
			return got
		}
		select {
		case <-again.C:
		case <-deadline:
			return got
		}
	}
}

// TestSignedByOpenSSL signs the same by openssl as by this program.
func TestSignedByOpenSSL(t *testing.T) {
	const secret = "8f2d6c0b4a1e9375d8f2d6c0b4a1e9375d8f2d6c0b4a1e9375d8f2d6c0b4a1e9"
	body := `{"id":"evt_1","data":{"name":"Zoë"}}`
	signedByOpenSSL(t, signature.Sign(time.Now(), []byte(body), secret), body, secret)
}

// signedByOpenSSL computes the signature by a program that shares nothing with
// ours.
func signedByOpenSSL(t *testing.T, header, body, secret string) {
	if _, err := exec.LookPath("openssl"); err != nil {
		if os.Getenv("EDGE_REQUIRE_VERIFIERS") != "" {
			t.Fatal(err)
		}
		t.Skipf("NOT TESTED: %v", err)
	}
	unix, v1, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",v1=")
	cmd := exec.Command("openssl", "dgst", "-sha256", "-hmac", secret, "-r")
	cmd.Stdin = strings.NewReader(unix + "." + body)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := strings.Cut(string(out), " "); got != v1 {
		t.Errorf("openssl signs with %s, we with %s", got, v1)
	}
}

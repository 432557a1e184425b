package command

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"partneredge/edge/service"
)

// hasFlags fails for each --flag in words that `edge VERB --help` does not name.
func hasFlags(t *testing.T, verb string, words []string) {
	t.Helper()
	help := edge(t, verb, "--help")
	for _, word := range words {
		if strings.HasPrefix(word, "--") && !strings.Contains(help, "\n      "+strings.SplitN(word, "=", 2)[0]+" ") {
			t.Errorf("edge %s has no flag %s", verb, word)
		}
	}
}

// TestUnits: systemd takes each unit, finds it well locked up, and the program
// has the flags that it is started with.
func TestUnits(t *testing.T) {
	units, err := filepath.Glob("../systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatalf("units %v, %v", units, err)
	}
	for _, unit := range units {
		verb := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(unit), "edge-"), ".service")
		t.Run(verb, func(t *testing.T) {
			text, err := os.ReadFile(unit)
			if err != nil {
				t.Fatal(err)
			}
			settings := map[string]string{}
			for line := range strings.Lines(string(text)) {
				if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && !strings.HasPrefix(line, "#") {
					settings[name] = value
				}
			}
			words := strings.Fields(settings["ExecStart"])
			if len(words) < 4 || words[0] != "/usr/bin/edge" || words[1] != verb {
				t.Fatalf("it starts %q", words)
			}
			hasFlags(t, verb, words)
			example := regexp.MustCompile(`(?m)^#   EDGE_FLAGS=(.*)$`).FindSubmatch(text)
			if example == nil {
				t.Fatal("no example of EDGE_FLAGS")
			}
			hasFlags(t, verb, strings.Fields(string(example[1])))
			documented := slices.ContainsFunc(operationsBlocks(t, "Three regions"), func(b block) bool {
				return b.file == "/etc/edge/"+verb+".env" && strings.TrimSpace(b.text) == "EDGE_FLAGS="+string(example[1])
			})
			if !documented {
				t.Errorf("OPERATIONS starts it by other flags than the example's %s", example[1])
			}
			// A node's modules are compiled to code that is written, then run.
			if want := map[string]string{"node": "no", "origin": "yes"}[verb]; settings["MemoryDenyWriteExecute"] != want {
				t.Errorf("MemoryDenyWriteExecute=%s, want %s", settings["MemoryDenyWriteExecute"], want)
			}
			// What takes long at a start begins anew when systemd ends it: an origin's
			// migrations, which know no bound, and a node's compilation of its modules.
			if want := map[string]string{"node": "600", "origin": "infinity"}[verb]; settings["TimeoutStartSec"] != want {
				t.Errorf("TimeoutStartSec=%s, want %s", settings["TimeoutStartSec"], want)
			}
			least := map[string]time.Duration{"node": service.StopTime + maxDrain, "origin": service.StopTime}[verb]
			if seconds, err := strconv.Atoi(settings["TimeoutStopSec"]); err != nil || time.Duration(seconds)*time.Second < least+10*time.Second {
				t.Errorf("TimeoutStopSec=%s, and a stop takes %s", settings["TimeoutStopSec"], least)
			}
			// Else systemd gives up after five ends within ten seconds, such as while the
			// database is away.
			if before, _, _ := strings.Cut(string(text), "\n[Service]\n"); !strings.Contains(before, "\nStartLimitIntervalSec=0\n") {
				t.Error("[Unit] has no StartLimitIntervalSec=0")
			}
			// Without the rest of /proc there is no process_start_time_seconds, by which alerts
			// find restarts, and queues of connections are as short as Linux had them once.
			if settings["ProcSubset"] != "" {
				t.Errorf("ProcSubset=%s hides /proc/stat and /proc/sys/net/core/somaxconn", settings["ProcSubset"])
			}
			takesUnit(t, unit, text)
		})
	}
}

// takesUnit has systemd itself judge a unit, where it is there.
func takesUnit(t *testing.T, unit string, text []byte) {
	t.Helper()
	analyze, missing := exec.LookPath("systemd-analyze")
	if missing != nil {
		if os.Getenv("EDGE_REQUIRE_SYSTEMD") != "" {
			t.Fatal(missing)
		}
		t.Skipf("NOT TESTED: whether systemd takes %s: %v", unit, missing)
	}
	here := filepath.Join(t.TempDir(), filepath.Base(unit))
	if err := os.WriteFile(here, bytes.ReplaceAll(text, []byte("/usr/bin/edge"), []byte(testFiles.program(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", here).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// From 0 to 100, of which 20 and less is the best that it knows.
	out, err = exec.Command(analyze, "security", "--no-pager", "--offline=true", "--threshold=20", here).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

// TestDockerfile holds the Dockerfile, which nothing here can run, to the
// repository and the program: what it copies is there, what it starts exists.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := os.ReadFile("../../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	stages := dockerStages(t, string(text))
	if len(stages) != 2 || !strings.HasSuffix(stages[0][0].args, " AS build") {
		t.Fatalf("the stages are %v", stages)
	}
	gomod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	wants := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(gomod)[1]
	if base := stages[0][0].args; !strings.HasPrefix(base, "golang:"+string(wants)) {
		t.Errorf("built with %s, go.mod wants %s", base, wants)
	}
	for _, c := range stages[0] {
		if c.name != "COPY" {
			continue
		}
		words := strings.Fields(c.args)
		for _, source := range words[:len(words)-1] {
			if source != "." && (!slices.Contains(strings.Fields(string(ignored)), "!"+source) || !there("../../"+source)) {
				t.Errorf("COPY %s: it is not there, or ignored", source)
			}
		}
	}
	for line := range strings.Lines(string(ignored)) {
		if name, kept := strings.CutPrefix(strings.TrimSpace(line), "!"); kept && !there("../../"+name) {
			t.Errorf(".dockerignore keeps %s, which is not there", name)
		}
	}
	for _, p := range list(t, nil, "./...") {
		folder, _, _ := strings.Cut(strings.TrimPrefix(p.ImportPath, module), "/")
		if !slices.Contains(strings.Fields(string(ignored)), "!"+folder) {
			t.Errorf(".dockerignore leaves out %s", folder)
		}
	}

	// The version is given to the build, since git is left out, and changes no layer but its own.
	built := slices.IndexFunc(stages[0], func(i dockerInstruction) bool {
		return i.name == "RUN" && strings.Contains(i.args, "make build VERSION=$VERSION")
	})
	if built < 1 || stages[0][built-1].name != "ARG" || !strings.HasPrefix(stages[0][built-1].args, "VERSION=") {
		t.Errorf("it is built by %v", stages[0])
	}
	for _, b := range operationsBlocks(t, "Containers") {
		if strings.Contains(b.text, "docker build ") && !strings.Contains(b.text, "docker build --build-arg VERSION=$(git describe ") {
			t.Errorf("OPERATIONS builds an image of no version: %s", b.text)
		}
	}

	image := imageOf(t, stages[1])
	if image.user == "" || strings.HasPrefix(image.user, "0") || image.user == "root" {
		t.Errorf("it runs as %q", image.user)
	}
	if len(image.entry) != 1 || image.copied[image.entry[0]] != "/src/build/edge" {
		t.Errorf("it starts %q; there is %v", image.entry, image.copied)
	}
	for _, name := range []string{"modules", "sandbox.wasm"} {
		if from := image.copied[path.Join(path.Dir(image.entry[0]), "../lib/edge", name)]; from != "/src/build/"+name {
			t.Errorf("%s where the program looks: %q", name, from)
		}
	}
	if image.copied[image.volume] == "" {
		t.Errorf("the volume %s is not made, so it would be root's", image.volume)
	}
	for _, word := range image.command {
		if out, err := exec.Command(testFiles.program(t), word).CombinedOutput(); err != nil {
			t.Errorf("edge %s: %v\n%s", word, err, out)
		}
	}
	helps := edge(t, "origin", "--help") + edge(t, "node", "--help")
	for _, port := range image.ports {
		if !strings.Contains(helps, ":"+port+"\")") {
			t.Errorf("port %s is no default of a listener", port)
		}
	}
	holdStatic(t, stages)
}

// holdStatic fails if an image whose base has no C library gets a program that needs one.
func holdStatic(t *testing.T, stages [][]dockerInstruction) {
	t.Helper()
	if !strings.Contains(stages[1][0].args, "/static") {
		return
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "\nexport CGO_ENABLED ?= 0\n") {
		t.Error("make build takes cgo where there is a C compiler, and the image has no C library")
	}
	for _, c := range stages[0] {
		if strings.Contains(c.args, "CGO_ENABLED=1") {
			t.Errorf("%s %s: the image has no C library", c.name, c.args)
		}
	}
	program, err := elf.Open(testFiles.program(t))
	if err != nil {
		t.Skipf("NOT TESTED: whether the program needs a C library: %v", err)
	}
	defer program.Close()
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the program is linked to a C library, and the image has none")
	}
}

func there(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// dockerInstruction is a line of a Dockerfile: COPY, its flags, and the rest.
type dockerInstruction struct{ name, flags, args string }

// dockerStages reads a Dockerfile without continued lines, each stage from its
// FROM on.
func dockerStages(t *testing.T, text string) (stages [][]dockerInstruction) {
	t.Helper()
	line := regexp.MustCompile(`^([A-Z]+)((?: --[a-z]+=\S+)*) (.*[^\\])$`)
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' {
			continue
		}
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("Dockerfile: a line that this test does not read: %s", l)
		}
		if m[1] == "FROM" {
			stages = append(stages, nil)
		}
		if len(stages) == 0 {
			t.Fatalf("Dockerfile: %s before FROM", m[1])
		}
		last := &stages[len(stages)-1]
		*last = append(*last, dockerInstruction{m[1], m[2], m[3]})
	}
	return stages
}

// image describes what a stage of a Dockerfile makes.
type image struct {
	copied         map[string]string // from the build, by where to
	user, volume   string
	entry, command []string
	ports          []string
}

func imageOf(t *testing.T, stage []dockerInstruction) image {
	t.Helper()
	i := image{copied: map[string]string{}}
	list := func(c dockerInstruction) (words []string) {
		if err := json.Unmarshal([]byte(c.args), &words); err != nil {
			t.Fatalf("%s %s: %v", c.name, c.args, err)
		}
		return words
	}
	for _, c := range stage {
		switch c.name {
		case "COPY":
			words := strings.Fields(c.args)
			if !strings.Contains(c.flags, "--from=build") || len(words) != 2 {
				t.Errorf("it copies %v with %q", words, c.flags)
				continue
			}
			i.copied[words[1]] = words[0]
		case "USER":
			i.user = c.args
		case "VOLUME":
			i.volume = c.args
		case "EXPOSE":
			i.ports = append(i.ports, strings.Fields(c.args)...)
		case "ENTRYPOINT":
			i.entry = list(c)
		case "CMD":
			i.command = list(c)
		}
	}
	return i
}

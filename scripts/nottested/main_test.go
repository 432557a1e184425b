package main

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	write := func(lines ...string) string {
		name := filepath.Join(t.TempDir(), "test.json")
		if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	passed := write(`{"Action":"run","Package":"partneredge/host","Test":"TestA"}`, `{"Action":"pass","Package":"partneredge/host","Test":"TestA"}`)
	skipped := write(
		`{"Action":"output","Package":"partneredge/edge/console","Test":"TestPages/dark","Output":"    pages_test.go:39: NOT TESTED: no browser\n"}`,
		`{"Action":"output","Package":"partneredge/edge/console","Test":"TestPages/dark","Output":"--- SKIP: TestPages/dark (0.00s)\n"}`,
		`{"Action":"skip","Package":"partneredge/edge/console","Test":"TestPages/dark"}`,
		`{"Action":"skip","Package":"partneredge/edge/dashboards"}`,
	)
	tests := []struct {
		name  string
		files []string
		want  string
		err   string
	}{
		{name: "no file", err: "usage"},
		{name: "nothing skipped", files: []string{passed}, want: "every test was run\n"},
		{name: "one skipped", files: []string{passed, skipped}, want: "NOT TESTED: TestPages/dark in edge/console: no browser\n"},
		{name: "no such file", files: []string{filepath.Join(t.TempDir(), "none")}, err: "none"},
		{name: "not JSON", files: []string{write("FAIL")}, err: "read "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			err := run(tt.files, &out)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if out.String() != tt.want {
				t.Errorf("printed %q, want %q", out.String(), tt.want)
			}
		})
	}
}

// skips matches a call that skips a test, and what it says first.
var skips = regexp.MustCompile(`\bt\.Skip(?:f|Now)?\(("?[^"),:]*)`)

// TestSkipsSayNotTested reads every test: what it skips is said in the words by which
// somebody who reads a log of all tests finds it.
func TestSkipsSayNotTested(t *testing.T) {
	may := map[string]string{
		`"too few bytes below 248`: "a case that rapid draws again",
		`"none is open`:            "likewise",
		"text":                     "begins with the words",
	}
	found := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && (entry.Name() == "build" || entry.Name() == ".git") {
			return cmp.Or(err, fs.SkipDir)
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, call := range skips.FindAllSubmatch(source, -1) {
			found++
			if said := string(call[1]); !strings.HasPrefix(said, `"NOT TESTED`) && may[said] == "" {
				t.Errorf("%s skips a test and says %s, not NOT TESTED", path, said)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 10 {
		t.Errorf("%d tests are skipped in the whole repository", found)
	}
}

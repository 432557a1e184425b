package command

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a RATIONALE.md may have: more is for a folder below it, or for no reader.
const (
	rationaleLines   = 150
	rationaleColumns = 100 // of a line that is no row of a table
)

// TestRationalesAreShort holds each RATIONALE.md to its bounds. A row of a table cannot be
// wrapped, nor can a single word, such as an address.
func TestRationalesAreShort(t *testing.T) {
	seen := 0
	for file, text := range documents(t) {
		if filepath.Base(file) != "RATIONALE.md" {
			continue
		}
		seen++
		if n := bytes.Count(text, []byte("\n")); n > rationaleLines {
			t.Errorf("%s has %d lines, %d more than it may", file, n, n-rationaleLines)
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > rationaleColumns && !strings.HasPrefix(line, "|") && len(strings.Fields(line)) > 1 {
				t.Errorf("%s:%d has %d columns, %d more than it may", file, number, n, n-rationaleColumns)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d RATIONALE.md found", seen)
	}
}

// TestRationalesNameFolders: where there are many folders, the rationale says why of each.
func TestRationalesNameFolders(t *testing.T) {
	for _, of := range []string{"edge", "host", "wasm"} {
		text, err := os.ReadFile(filepath.Join("../..", of, "RATIONALE.md"))
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join("../..", of))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() && e.Name() != "testdata" && !bytes.Contains(text, []byte("`"+e.Name()+"`")) {
				t.Errorf("%s/RATIONALE.md does not say why there is %s", of, e.Name())
			}
		}
	}
}

// TestDocumentsLead: what documents link to or name by its path, from their own folder or
// from the root, is there. The change log names what was there.
func TestDocumentsLead(t *testing.T) {
	linked := regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)
	named := regexp.MustCompile("`([^` ]*/RATIONALE\\.md|(?:edge|host|store|wasm|scripts)/[\\w./-]+?)(?:\\.[A-Z]\\w*)?`")
	seen := 0
	for file, text := range documents(t) {
		check := func(target string, folders ...string) {
			seen++
			for _, folder := range folders {
				if _, err := os.Stat(filepath.Join(folder, target)); err == nil {
					return
				}
			}
			t.Errorf("%s names %s, which is not there", file, target)
		}
		for _, m := range linked.FindAllSubmatch(text, -1) {
			if m[1][0] != '/' { // which is on the node that serves the page
				check(string(m[1]), filepath.Dir(file))
			}
		}
		for _, m := range named.FindAllSubmatch(text, -1) {
			if filepath.Base(file) != "CHANGELOG.md" {
				check(string(m[1]), filepath.Dir(file), "../..")
			}
		}
	}
	if seen < 150 {
		t.Errorf("only %d references found", seen)
	}
}

// documents returns the repository's Markdown by its paths.
func documents(t *testing.T) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "build" || d.Name() == ".git" || d.Name() == "data"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			found[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

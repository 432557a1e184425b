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

// TestDocumentsLead: each link between documents, and each RATIONALE.md that one names by
// its path, from its own folder or from the root, is there.
func TestDocumentsLead(t *testing.T) {
	named := regexp.MustCompile("\\]\\(([^):#]+)(?:#[^)]*)?\\)|`([^` ]*/RATIONALE\\.md)`")
	seen := 0
	for file, text := range documents(t) {
		for _, m := range named.FindAllSubmatch(text, -1) {
			seen++
			target := string(m[1]) + string(m[2])
			if strings.HasPrefix(target, "/") { // on the host that serves the page
				continue
			}
			beside := filepath.Join(filepath.Dir(file), target)
			if _, err := os.Stat(beside); err == nil {
				continue
			}
			if _, err := os.Stat(filepath.Join("../..", target)); err != nil || len(m[2]) == 0 {
				t.Errorf("%s names %s, which is not there", file, target)
			}
		}
	}
	if seen < 60 {
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

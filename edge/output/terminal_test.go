package output

import (
	"bytes"
	"os"
	"testing"
)

// Escapes are for terminals only.
func TestColours(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if ColoursOf(file).on || ColoursOf(new(bytes.Buffer)).on {
		t.Error("a file is coloured")
	}
	if got := (Colours{}).Good("yes"); got != "yes" {
		t.Errorf("without colours %q", got)
	}
	if got := (Colours{on: true}).Bad("no"); got != "\x1b[31mno\x1b[0m" {
		t.Errorf("with colours %q", got)
	}
}

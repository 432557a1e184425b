package command

import (
	"io"
	"os"

	"golang.org/x/term"
)

// colours of what is shown to people: ANSI escapes, or nothing where the output
// is no terminal, or NO_COLOR is set (no-color.org).
type colours struct{ on bool }

func coloursOf(out io.Writer) colours {
	f, ok := out.(*os.File)
	return colours{ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))}
}

func (c colours) paint(code, text string) string {
	if !c.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (c colours) good(text string) string  { return c.paint("32", text) }
func (c colours) bad(text string) string   { return c.paint("31", text) }
func (c colours) wait(text string) string  { return c.paint("33", text) }
func (c colours) faint(text string) string { return c.paint("2", text) }

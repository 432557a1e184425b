package output

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether out is a terminal.
func IsTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ClearScreen empties the terminal.
func ClearScreen(out io.Writer) { fmt.Fprint(out, "\x1b[H\x1b[2J") }

// Colours paints text with ANSI escapes. The zero Colours leaves it plain.
type Colours struct{ on bool }

// ColoursOf returns the Colours for out: none where it is no terminal, or
// NO_COLOR is set (no-color.org).
func ColoursOf(out io.Writer) Colours {
	return Colours{os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(out)}
}

func (c Colours) paint(code, text string) string {
	if !c.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Good paints a success.
func (c Colours) Good(text string) string { return c.paint("32", text) }

// Bad paints a failure.
func (c Colours) Bad(text string) string { return c.paint("31", text) }

// Wait paints what is not decided yet.
func (c Colours) Wait(text string) string { return c.paint("33", text) }

// Faint paints what matters less.
func (c Colours) Faint(text string) string { return c.paint("2", text) }

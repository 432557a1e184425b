package output

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Compiling shows on one line of a terminal how far modules are compiled. Where
// the output is no terminal it prints a line at the beginning and one at the end.
type Compiling struct {
	out      io.Writer
	terminal bool
	began    time.Time
	total    int
}

// NewCompiling returns a Compiling that begins at the first Module.
func NewCompiling(out io.Writer) *Compiling {
	return &Compiling{out: out, began: time.Now(), terminal: IsTerminal(out)}
}

// Module shows that the module of that name is being compiled, and that done of
// total are ready.
func (c *Compiling) Module(name string, done, total int) {
	if c.total == 0 && !c.terminal {
		fmt.Fprintf(c.out, "compiling %d modules, kept for the next start\n", total)
	}
	c.total = total
	if c.terminal {
		fmt.Fprintf(c.out, "\r\x1b[Kcompiling modules (kept for the next start): %d of %d, %s", done, total, name)
	}
}

// Done ends the line.
func (c *Compiling) Done(ok bool) {
	if c.terminal {
		fmt.Fprint(c.out, "\r\x1b[K")
	}
	if ok && c.total > 0 {
		fmt.Fprintf(c.out, "%d modules ready after %.1f s\n", c.total, time.Since(c.began).Seconds())
	}
}

// NewBar returns a bar that is full at total, and that is not shown where the
// output is no terminal.
func NewBar(out io.Writer, total int64, options ...progressbar.Option) *progressbar.ProgressBar {
	if !IsTerminal(out) {
		out = io.Discard
	}
	return progressbar.NewOptions64(total, append(options, progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(50*time.Millisecond), progressbar.OptionClearOnFinish())...)
}

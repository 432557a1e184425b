package command

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress shows on one line how far the modules are compiled. Where the output
// is no terminal it says when it begins and when it is done.
type progress struct {
	out      io.Writer
	terminal bool
	began    time.Time
	total    int
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, began: time.Now()}
	if f, ok := out.(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	return p
}

// module says that one is being compiled and how many of total are ready.
func (p *progress) module(name string, done, total int) {
	if p.total == 0 && !p.terminal {
		fmt.Fprintf(p.out, "compiling %d modules, kept for the next start\n", total)
	}
	p.total = total
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[Kcompiling modules (kept for the next start): %d of %d, %s", done, total, name)
	}
}

// done ends the line.
func (p *progress) done(ok bool) {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	if ok && p.total > 0 {
		fmt.Fprintf(p.out, "%d modules ready after %.1f s\n", p.total, time.Since(p.began).Seconds())
	}
}

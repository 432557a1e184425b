package command

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// rolloutBar shows how many nodes serve a release. Where the output is no
// terminal it says each step in a line.
type rolloutBar struct {
	out     io.Writer
	version string
	bar     *progressbar.ProgressBar // nil: no terminal
	said    string
}

func newRolloutBar(out io.Writer, nodes int, version string) *rolloutBar {
	b := &rolloutBar{out: out, version: version}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		b.bar = progressbar.NewOptions(nodes, progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(50*time.Millisecond),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(true))
	}
	return b
}

func (b *rolloutBar) show(r *rolloutRecord) {
	step := r.step()
	if b.bar != nil {
		b.bar.Describe(b.version + ", " + step)
		_ = b.bar.Set(min(r.Serving, max(len(r.Nodes)-1, 0))) // the last one would end the bar before the rollout
		return
	}
	if step != b.said {
		fmt.Fprintf(b.out, "release %s: %s, %d of %d nodes serve\n", b.version, step, r.Serving, len(r.Nodes))
		b.said = step
	}
}

// end takes the bar away.
func (b *rolloutBar) end() {
	if b.bar != nil {
		_ = b.bar.Finish() // it is only a picture
	}
}

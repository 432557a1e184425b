package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"partneredge/scripts/bench/harness"
)

// errEnded is the error of a process that ended well before it was ready.
var errEnded = errors.New("it ended by itself")

// Process of the program, which writes the file Ready when it is.
type Process struct {
	Ready string

	cmd   *exec.Cmd
	log   bytes.Buffer
	ended chan struct{} // closed when the process has ended
	err   error         // how it ended
}

// Start returns once the process is ready, with what it says of itself in at.
func (p *Process) Start(ctx context.Context, at any, program string, args ...string) error {
	if err := p.Begin(ctx, program, args...); err != nil {
		return err
	}
	err := harness.Poll(ctx, "edge "+args[0]+" to be ready", func() (bool, error) {
		select {
		case <-p.ended:
			return false, fmt.Errorf("start %s: %w", p.cmd, cmp.Or(p.err, errEnded))
		default:
		}
		text, err := os.ReadFile(p.Ready)
		return err == nil && json.Unmarshal(text, at) == nil, nil
	})
	if err != nil {
		p.Kill()
		return fmt.Errorf("%w: %s", err, &p.log)
	}
	return nil
}

// Begin starts the process and does not wait.
func (p *Process) Begin(ctx context.Context, program string, args ...string) error {
	_ = os.Remove(p.Ready) // of the process before, which was killed
	p.log.Reset()
	p.cmd = exec.CommandContext(ctx, program, args...)
	p.cmd.Stderr = &p.log
	p.ended = make(chan struct{})
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return err
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	return nil
}

// PID returns the process's number while it runs.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop asks the process to end by itself, and waits for that.
func (p *Process) Stop() error {
	if p.cmd == nil {
		return nil
	}
	defer func() { p.cmd = nil }()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	if <-p.ended; p.err != nil {
		return fmt.Errorf("stop %s: %w: %s", p.cmd, p.err, &p.log)
	}
	return nil
}

// Kill ends it by force. What it has written stays. It may be called twice.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	p.cmd = nil
}

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"partneredge/scripts/bench/harness"
)

// Process of the program, which writes the file Ready when it is.
type Process struct {
	Ready string

	cmd *exec.Cmd
	log bytes.Buffer
}

// Start returns once the process is ready, with what it says of itself in at.
func (p *Process) Start(ctx context.Context, at any, program string, args ...string) error {
	if err := p.Begin(ctx, program, args...); err != nil {
		return err
	}
	err := harness.Poll(ctx, "edge "+args[0]+" to be ready", func() (bool, error) {
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
	return p.cmd.Start()
}

// PID returns the process's number while it runs.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop has the process end by itself, and waits for that.
func (p *Process) Stop() error {
	if p.cmd == nil {
		return nil
	}
	defer func() { p.cmd = nil }()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("stop %s: %w: %s", p.cmd, err, &p.log)
	}
	return nil
}

// Kill ends it by force. What it has written stays. It may be called twice.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
}

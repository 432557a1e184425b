package sandboxctl

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Client gives commands to a program. It may be used from many goroutines at
// once.
type Client struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// NewClient makes a client that writes to the program's in and reads its out,
// whose next line is the answer to the first command.
func NewClient(in io.Writer, out *bufio.Reader) *Client { return &Client{in: in, out: out} }

// Do gives a command and waits for its answer.
func (c *Client) Do(command Command) (a Answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, err := json.Marshal(command)
	if err != nil {
		return a, fmt.Errorf("command %s: %w", command.Do, err)
	}
	if _, err := c.in.Write(append(text, '\n')); err != nil {
		return a, fmt.Errorf("command %s: %w", command.Do, err)
	}
	line, err := c.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return a, fmt.Errorf("command %s: %w", command.Do, err)
	}
	return a, nil
}

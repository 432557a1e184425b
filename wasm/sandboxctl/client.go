package sandboxctl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Client sends commands to a sandbox program. It is safe for concurrent use.
type Client struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// NewClient returns a client that writes to the program's standard input and
// reads its standard output. The next line of out must be the answer to the
// first command.
func NewClient(in io.Writer, out *bufio.Reader) *Client { return &Client{in: in, out: out} }

// Do sends a command and waits for its answer.
func (c *Client) Do(command Command) (Answer, error) {
	a, err := c.do(command)
	if err != nil {
		return a, fmt.Errorf("command %s: %w", command.Do, err)
	}
	return a, nil
}

func (c *Client) do(command Command) (a Answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // it takes six bytes for one
	if err := e.Encode(command); err != nil {
		return a, err
	}
	if text.Len() > MaxLine { // the program would read no more
		return a, fmt.Errorf("it takes %d bytes of JSON, %d at most", text.Len(), MaxLine)
	}
	if _, err := c.in.Write(text.Bytes()); err != nil {
		return a, err
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/scripts/bench/harness"
)

type result struct {
	took    []time.Duration
	elapsed time.Duration
	cpu     time.Duration // of the server's process; 0: not known
}

func (r result) perSecond() float64 { return float64(len(r.took)) / r.elapsed.Seconds() }

// cpuMicros returns the server's processor time for a request.
func (r result) cpuMicros() float64 { return float64(r.cpu.Microseconds()) / float64(len(r.took)) }

func (r result) quantile(q float64) time.Duration {
	return harness.Quantile(r.took, q).Round(time.Microsecond)
}

// work says what a load consists of.
type work struct {
	request   request
	conns     int
	length    time.Duration
	perSecond float64 // of all connections; 0: as fast as they are answered
}

// load sends requests to a server. With work.perSecond they are due at even times,
// and their latency counts from when they were due. Any answer but those that the
// request may get is an error. Connections are made before the time begins.
func load(ctx context.Context, s *server, w work) (all result, err error) {
	conns := make([]net.Conn, w.conns)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	for i := range conns {
		if conns[i], err = s.dial(ctx, i); err != nil {
			return result{}, err
		}
	}
	before, err := s.cpuTime()
	if err != nil {
		return result{}, err
	}
	start := time.Now()
	var mu sync.Mutex
	group, within := errgroup.WithContext(ctx)
	for i, conn := range conns {
		group.Go(func() error {
			took, err := loadOne(within, s, conn, schedule{w, start, i})
			mu.Lock()
			all.took = append(all.took, took...)
			mu.Unlock()
			return err
		})
	}
	err = group.Wait()
	all.elapsed = time.Since(start)
	after, cpuErr := s.cpuTime()
	all.cpu = after - before
	slices.Sort(all.took)
	if err == nil && len(all.took) == 0 {
		err = errors.New("nothing was answered")
	}
	return all, cmp.Or(err, cpuErr, ctx.Err())
}

// dial opens the nth connection to a server: by TLS 1.3 if it speaks that.
func (s *server) dial(ctx context.Context, nth int) (net.Conn, error) {
	addr := s.addrs[nth%len(s.addrs)]
	if !s.tls {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
	// The certificate is the bench's own.
	return (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}}).DialContext(ctx, "tcp", addr)
}

// schedule says when a connection, the nth, sends.
type schedule struct {
	work
	start time.Time
	nth   int
}

func (s schedule) due(n int) time.Time {
	return s.start.Add(time.Duration(float64(n*s.conns+s.nth) / s.perSecond * float64(time.Second)))
}

func loadOne(ctx context.Context, server *server, conn net.Conn, s schedule) ([]time.Duration, error) {
	in := bufio.NewReaderSize(conn, 4096)
	text := s.request.text(server, s.nth)
	var took []time.Duration
	for n := 0; ctx.Err() == nil; n++ {
		due := time.Now()
		if s.perSecond > 0 {
			due = s.due(n)
			time.Sleep(time.Until(due))
		}
		if due.Sub(s.start) >= s.length {
			break
		}
		if err := ask(conn, in, text, s.request); err != nil {
			return took, err
		}
		took = append(took, time.Since(due))
	}
	return took, nil
}

// ask sends a request and reads its answer, which it drops.
func ask(conn io.Writer, in *bufio.Reader, text []byte, r request) error {
	if _, err := conn.Write(text); err != nil {
		return err
	}
	status, err := readAnswer(in)
	if err == nil && !r.takes(status) {
		err = fmt.Errorf("%s answered %q", r.name, status)
	}
	return err
}

// readAnswer reads one HTTP/1.1 answer with a Content-Length, drops it and returns its
// status.
func readAnswer(in *bufio.Reader) (status string, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	words := bytes.Fields(line)
	if len(words) < 2 || string(words[0]) != "HTTP/1.1" {
		return "", fmt.Errorf("answered %q", bytes.TrimSpace(line))
	}
	status = string(words[1])
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		const name = "content-length:"
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], []byte(name)) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(name):]))); err != nil {
				return "", err
			}
		}
	}
	if length < 0 {
		return "", errors.New("answer has no length")
	}
	_, err = in.Discard(length)
	return status, err
}

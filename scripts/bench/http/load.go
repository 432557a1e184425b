package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
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
}

func (r result) perSecond() float64 { return float64(len(r.took)) / r.elapsed.Seconds() }

func (r result) quantile(q float64) time.Duration {
	return harness.Quantile(r.took, q).Round(time.Microsecond)
}

// load sends the server's request over conns connections for length. With
// perSecond 0 each connection sends as fast as it is answered; else requests
// are due at even times, and their latency counts from when they were due.
// Any answer but 200 is an error.
func load(ctx context.Context, s *server, conns int, length time.Duration, perSecond float64) (result, error) {
	start := time.Now()
	var all result
	var mu sync.Mutex
	group, within := errgroup.WithContext(ctx)
	for i := range conns {
		addr := s.addrs[i%len(s.addrs)]
		request := []byte("GET /api/v2/public/agents/me HTTP/1.1\r\nHost: " + addr + "\r\nAuthorization: Bearer " + s.keys[i%len(s.keys)] + "\r\n\r\n")
		group.Go(func() error {
			took, err := loadOne(within, addr, request, schedule{start, length, i, conns, perSecond})
			mu.Lock()
			all.took = append(all.took, took...)
			mu.Unlock()
			return err
		})
	}
	err := group.Wait()
	all.elapsed = time.Since(start)
	slices.Sort(all.took)
	return all, cmp.Or(err, ctx.Err())
}

// schedule says when one of conns connections sends.
type schedule struct {
	start      time.Time
	length     time.Duration
	nth, conns int
	perSecond  float64 // of all connections; 0: as fast as they are answered
}

func (s schedule) due(n int) time.Time {
	return s.start.Add(time.Duration(float64(n*s.conns+s.nth) / s.perSecond * float64(time.Second)))
}

func loadOne(ctx context.Context, addr string, request []byte, s schedule) ([]time.Duration, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReaderSize(conn, 4096)
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
		if _, err := conn.Write(request); err != nil {
			return took, err
		}
		if err := readAnswer(in); err != nil {
			return took, err
		}
		took = append(took, time.Since(due))
	}
	return took, nil
}

// readAnswer reads one HTTP/1.1 answer with a Content-Length, and drops it.
func readAnswer(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("answered %q", bytes.TrimSpace(line))
	}
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		const name = "content-length:"
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], []byte(name)) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(name):]))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return fmt.Errorf("answer has no length")
	}
	_, err = io.CopyN(io.Discard, in, int64(length))
	return err
}

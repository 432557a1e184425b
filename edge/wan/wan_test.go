package wan_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"partneredge/edge/wan"
)

// echo starts a server that returns what it receives, until the test ends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func start(t *testing.T, target string, delay time.Duration) *wan.Relay {
	t.Helper()
	r, err := wan.Start(context.Background(), wan.Config{Target: target, Delay: delay})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func TestRoundTripTakesTwiceTheDelay(t *testing.T) {
	const delay = 60 * time.Millisecond
	c := dial(t, start(t, echo(t), delay).Addr())
	for range 3 {
		began := time.Now()
		if _, err := c.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 4)
		if _, err := io.ReadFull(c, answer); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 2*delay {
			t.Errorf("a round trip took %v, want %v at least", took, 2*delay)
		}
	}
}

// TestWholeAndInOrder sends many chunks, which must not take one delay each.
func TestWholeAndInOrder(t *testing.T) {
	const delay = time.Second
	c := dial(t, start(t, echo(t), delay).Addr())
	sent := make([]byte, 8<<20)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(sent)
	began := time.Now()
	go func() {
		_, _ = c.Write(sent)
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back, not the %d that were sent", len(got), len(sent))
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

func TestStopClosesConnections(t *testing.T) {
	r := start(t, echo(t), 10*time.Millisecond)
	c := dial(t, r.Addr())
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.Stop()
	r.Stop()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	if _, err := net.Dial("tcp", r.Addr()); err == nil {
		t.Error("the relay still listens")
	}
}

func TestCutAndMend(t *testing.T) {
	r := start(t, echo(t), time.Millisecond)
	alive := func(c net.Conn) bool {
		_, err := c.Write([]byte("x"))
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 1))
		}
		return err == nil
	}
	before := dial(t, r.Addr())
	if !alive(before) {
		t.Fatal("nothing comes back")
	}
	r.Cut()
	if alive(before) {
		t.Error("the connection outlives the cut")
	}
	if alive(dial(t, r.Addr())) {
		t.Error("a connection is made through the cut")
	}
	r.Mend()
	if !alive(dial(t, r.Addr())) {
		t.Error("nothing comes back after mending")
	}
}

// TestStallAndMend checks that a stall holds up bytes without either side noticing.
func TestStallAndMend(t *testing.T) {
	r := start(t, echo(t), time.Millisecond)
	c := dial(t, r.Addr())
	b := make([]byte, 3)
	read := func(n int) string {
		t.Helper()
		if _, err := io.ReadFull(c, b[:n]); err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	write := func(text string) {
		t.Helper()
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	read(1)
	r.Stall()
	r.Stall()
	write("b")
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("through a stall came %q, %v", b[:n], err)
	}
	if err := c.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	write("c")
	r.Mend()
	if got := read(2); got != "bc" {
		t.Errorf("after mending came %q", got)
	}
	r.Stall()
	write("d")
	r.Stop() // does not wait for held up bytes
}

func TestTargetIsNotThere(t *testing.T) {
	const nobody = "127.0.0.1:1" // of a service that is gone for decades
	c := dial(t, start(t, nobody, time.Millisecond).Addr())
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection stays open")
	}
}

package replication

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/origin/broker"
	"partneredge/edge/origin/natsauth"
)

// flush waits until each subscription of a connection has handled what was published.
func flush(t *testing.T, conn *nats.Conn) {
	t.Helper()
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	handled := make(chan bool)
	if err := conn.Barrier(func() { close(handled) }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-handled:
	case <-time.After(time.Minute):
		t.Fatal("after a minute still not all messages were handled")
	}
}

// TestWaker expects a process to wake the others and not itself, and many wakes
// at once to become few messages.
func TestWaker(t *testing.T) {
	authority, err := natsauth.Open(t.TempDir() + "/nats")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	server, err := broker.Start(broker.Config{Authority: authority, Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	start := func() (*waker, chan bool) {
		woken := make(chan bool, 10_000)
		w := newWaker(Config{Conn: server.Conn(), Log: log, OnWake: func() { woken <- true }})
		if err := w.start(); err != nil {
			t.Fatal(err)
		}
		go w.run(t.Context())
		return w, woken
	}
	first, firstWoken := start()
	second, secondWoken := start()
	flush(t, server.Conn()) // both have subscribed
	receive := func(what string, woken chan bool) {
		t.Helper()
		select {
		case <-woken:
		case <-time.After(time.Minute):
			t.Fatalf("after a minute still no %s", what)
		}
	}
	for range 1000 {
		first.wake.Send()
	}
	receive("wake of the second", secondWoken)
	flush(t, server.Conn())
	if n := len(firstWoken); n > 0 {
		t.Errorf("the first woke itself %d times", n)
	}
	second.wake.Send()
	receive("wake of the first", firstWoken)
	for name, woken := range map[string]chan bool{"first": firstWoken, "second": secondWoken} {
		if len(woken) > 500 {
			t.Errorf("the %s was woken %d times more", name, len(woken))
		}
	}
}

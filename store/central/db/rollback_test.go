package db

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"partneredge/store/central/centraltest"
)

// relay passes bytes between clients and a server until it is stalled: then the connections
// that it has stay open and carry nothing, and new ones are as before.
type relay struct {
	net.Listener
	server  string
	running sync.WaitGroup

	mu    sync.Mutex
	conns []*relayed
}

// relayed is a connection of a relay.
type relayed struct {
	client, server net.Conn
	stalled        chan struct{}
}

func startRelay(t *testing.T, server string) *relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, server: server}
	r.running.Go(r.accept)
	return r
}

// close ends the relay and its connections.
func (r *relay) close() {
	_ = r.Close()
	r.mu.Lock()
	for _, c := range r.conns {
		_, _ = c.client.Close(), c.server.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

func (r *relay) accept() {
	for {
		client, err := r.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &relayed{client: client, server: server, stalled: make(chan struct{})}
		r.mu.Lock()
		r.conns = append(r.conns, c)
		r.mu.Unlock()
		r.running.Go(func() { c.pass(server, client) })
		r.running.Go(func() { c.pass(client, server) })
	}
}

// pass copies from one side to the other until an end closes or the connection is stalled.
func (c *relayed) pass(to io.WriteCloser, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-c.stalled:
			return
		default:
		}
		if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
			_ = to.Close()
			return
		}
	}
}

// stall stalls the connections that there are.
func (r *relay) stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		select {
		case <-c.stalled:
		default:
			close(c.stalled)
		}
	}
}

// TestRollbackOnALinkThatStalls has the link to PostgreSQL carry nothing from the moment in
// which a transaction fails: the caller gets that error, and the next write goes over a new
// connection.
func TestRollbackOnALinkThatStalls(t *testing.T) {
	shared := func(d *DB, ctx context.Context, fn Func) error { return d.Write(ctx, "", fn) }
	for name, run := range map[string]func(*DB, context.Context, Func) error{
		"shared write": shared, "write alone": (*DB).WriteAlone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, err := url.Parse(centraltest.Postgres(t))
			if err != nil {
				t.Fatal(err)
			}
			link := startRelay(t, address.Host)
			defer link.close()
			address.Host = link.Addr().String()
			d, err := Open(t.Context(), Config{
				URL:        address.String(),
				Now:        time.Now, // no connection for the database's clock
				Migrations: fstest.MapFS{"postgres/0001_a.sql": {Data: []byte(`CREATE TABLE a (n BIGINT)`)}},
				NewBatch:   func(*Tx) Batch { return emptyBatch{} },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				link.close() // else what hangs would hold up Close
				_ = d.Close()
			}()
			refused := errors.New("refused")
			done := make(chan error, 1)
			go func() { // ends with the relay at the latest
				done <- run(d, t.Context(), func(context.Context, *Tx) error {
					link.stall()
					return refused
				})
			}()
			select {
			case err := <-done:
				if !errors.Is(err, refused) {
					t.Errorf("got %v", err)
				}
			case <-time.After(2 * batchTime):
				t.Fatal("it still waits for ROLLBACK")
			}
			if err := shared(d, t.Context(), func(ctx context.Context, tx *Tx) error {
				_, err := tx.Exec(ctx, `INSERT INTO a VALUES (1)`)
				return err
			}); err != nil {
				t.Errorf("the next write: %v", err)
			}
		})
	}
}

// TestOpenOnALinkThatStalls has the link to a database that needs no migration carry
// nothing from the moment in which the database's clock is to be read: it is read over a
// new connection.
func TestOpenOnALinkThatStalls(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(centraltest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	const create = `CREATE TABLE a (n BIGINT)`
	openWith(t, address.String(), create, nil)
	link := startRelay(t, address.Host)
	defer link.close()
	address.Host = link.Addr().String()
	var stall sync.Once
	d, err := Open(t.Context(), Config{
		URL:        address.String(),
		Migrations: fstest.MapFS{"postgres/0001_a.sql": {Data: []byte(create)}},
		Local:      func() time.Time { stall.Do(link.stall); return time.Now() }, // which is read first
	})
	if err != nil {
		t.Fatal(err)
	}
	link.close() // else what hangs would hold up Close
	_ = d.Close()
}

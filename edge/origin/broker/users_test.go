package broker

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"partneredge/edge/origin/natsauth"
	"partneredge/edge/wire"
)

// startEmbedded starts an embedded server that takes the servers of regions.
func startEmbedded(t *testing.T) *Broker {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "nats")
	authority, err := natsauth.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Start(Config{
		Authority: authority, Log: slog.New(slog.DiscardHandler), Listen: "127.0.0.1:0", LeafListen: "127.0.0.1:0", Dir: dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func nodeUser(t *testing.T, b *Broker) (credentials string) {
	t.Helper()
	credentials, _, err := b.config.Authority.NodeUser("node_1", "east")
	if err != nil {
		t.Fatal(err)
	}
	return credentials
}

// await fails if something does not become true within a minute.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// leafConn is the connection of a region's server that speaks no more than it must.
type leafConn struct {
	net.Conn
	in *bufio.Reader
}

// connectLeaf connects as a region's server does, and returns the first answer, which is
// INFO to credentials that are taken.
func connectLeaf(t *testing.T, b *Broker, credentials string) (c leafConn, answer string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.LeafURL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c = leafConn{conn, bufio.NewReader(conn)}
	var info struct{ Nonce string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(c.line(t), "INFO ")), &info); err != nil {
		t.Fatal(err)
	}
	token, err := jwt.ParseDecoratedJWT([]byte(credentials))
	if err != nil {
		t.Fatal(err)
	}
	key, err := nkeys.ParseDecoratedUserNKey([]byte(credentials))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := key.Sign([]byte(info.Nonce))
	if err != nil {
		t.Fatal(err)
	}
	hello, err := json.Marshal(map[string]string{"jwt": token, "sig": base64.RawURLEncoding.EncodeToString(signed), "name": "region"})
	if err != nil {
		t.Fatal(err)
	}
	c.say(t, "CONNECT "+string(hello))
	return c, c.line(t)
}

func (c leafConn) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\r\n"); err != nil {
		t.Fatal(err)
	}
}

func (c leafConn) line(t *testing.T) string {
	t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// subscribe returns when the server has taken the subscription in.
func (c leafConn) subscribe(t *testing.T, subject string) {
	t.Helper()
	c.say(t, "LS+ "+subject)
	c.say(t, "PING")
	for !strings.HasPrefix(c.line(t), "PONG") {
	}
}

// message returns how many bytes the next message has, which it leaves out; 0 when the server
// has let go of the connection.
func (c leafConn) message(t *testing.T) (size int) {
	t.Helper()
	for {
		line, err := c.in.ReadString('\n')
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return 0
		} else if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(line)
		switch {
		case words[0] == "PING":
			c.say(t, "PONG")
		case words[0] == "LMSG":
			size, err := strconv.Atoi(words[len(words)-1])
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.in.Discard(size + len("\r\n")) // where that fails the next one is 0
			return size
		}
	}
}

// TestNodeIsNoServer: a node's credentials do not let a NATS server connect, which could take
// the place of a region's.
func TestNodeIsNoServer(t *testing.T) {
	b := startEmbedded(t)
	if _, answer := connectLeaf(t, b, nodeUser(t, b)); !strings.HasPrefix(answer, "-ERR") {
		t.Errorf("a server with a node's credentials is answered %q", answer)
	}
}

// TestReaderThatDoesNotRead: what waits for a region's server is bounded, however much is
// sent to it while it reads nothing.
func TestReaderThatDoesNotRead(t *testing.T) {
	b := startEmbedded(t)
	r, err := b.config.Authority.RegionServer("reg_1", "east", natsauth.Leaf{URL: b.LeafURL()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, answer := connectLeaf(t, b, r.Credentials)
	if !strings.HasPrefix(answer, "INFO") {
		t.Fatalf("a region's server is answered %q", answer)
	}
	subject := wire.ToNode + wire.RegionalAddress("east", "node_1") + "." + wire.VerbShare
	leaf.subscribe(t, subject)

	const sent = 8 * natsauth.MaxPending
	body := make([]byte, 1<<20)
	for range sent / len(body) {
		if err := b.Conn().Publish(subject, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Conn().FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	// It reads again. What comes after the others is small, and is repeated as it may be
	// left out too.
	var marking sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	marking.Go(func() {
		for ctx.Err() == nil && b.Conn().Publish(subject, []byte(".")) == nil {
			_ = b.Conn().FlushTimeout(time.Minute)
		}
	})
	read := 0
	for size := leaf.message(t); size > 1; size = leaf.message(t) {
		read += size
	}
	end()
	marking.Wait()
	// Buffers of the system hold some megabytes too.
	if read > sent/2 {
		t.Errorf("%d MB of %d MB waited for a server that did not read", read>>20, sent>>20)
	}
}

// TestRevocationTakesNoPlace: servers of regions hear of a revocation without a connection
// that is made for it, for which there may be no place.
func TestRevocationTakesNoPlace(t *testing.T) {
	b := startEmbedded(t)
	connections := func() uint64 {
		v, err := b.server.(*embedded).Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.TotalConnections
	}
	r, err := b.config.Authority.RegionServer("reg_1", "east", natsauth.Leaf{URL: b.LeafURL()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, answer := connectLeaf(t, b, r.SystemCredentials)
	if !strings.HasPrefix(answer, "INFO") {
		t.Fatalf("a region's server is answered %q", answer)
	}
	leaf.subscribe(t, natsauth.ClaimsUpdate)
	before := connections()
	if err := b.Revoke(t.Context(), map[string]time.Time{"UABC": time.Now()}); err != nil {
		t.Fatal(err)
	}
	leaf.message(t)
	if n := connections() - before; n != 0 {
		t.Errorf("a revocation made %d connections", n)
	}
}

// TestConnectionsOfUser: a user has few connections, of which the oldest go. Others keep
// theirs.
func TestConnectionsOfUser(t *testing.T) {
	b := startEmbedded(t)
	connect := func(credentials string) *nats.Conn {
		conn, err := nats.Connect(b.URL(), nats.UserCredentialBytes([]byte(credentials)), nats.MaxReconnects(0), nats.Timeout(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	other, credentials := connect(nodeUser(t, b)), nodeUser(t, b)
	var conns []*nats.Conn
	for range 3 * connectionsOfUser {
		conns = append(conns, connect(credentials))
	}
	last := len(conns) - connectionsOfUser
	for i, conn := range conns[:last] {
		await(t, fmt.Sprint("connection ", i, " to be closed"), conn.IsClosed)
	}
	for _, conn := range append(conns[last:], other) {
		if err := conn.FlushTimeout(time.Minute); err != nil {
			t.Errorf("a connection that may stay: %v", err)
		}
	}
}

// TestEndedConnections: connections that have ended do not count.
func TestEndedConnections(t *testing.T) {
	u := &users{open: make(map[string][]uint64)}
	for id := range uint64(3) {
		for _, kind := range []string{server.ConnectEventMsgType, server.DisconnectEventMsgType} {
			event, err := json.Marshal(server.ConnectEventMsg{TypedEvent: server.TypedEvent{Type: kind}, Client: server.ClientInfo{User: "UABC", ID: id}})
			if err != nil {
				t.Fatal(err)
			}
			u.hear(&nats.Msg{Data: event})
		}
	}
	if len(u.open) > 0 {
		t.Errorf("counted are %v", u.open)
	}
}

// TestConnectionsInAll: connections to NATS leave files for everything else, and there are
// enough for all nodes that OPERATIONS promises.
func TestConnectionsInAll(t *testing.T) {
	unit, err := os.ReadFile("../../systemd/edge-origin.service")
	if err != nil {
		t.Fatal(err)
	}
	_, limit, _ := strings.Cut(string(unit), "\nLimitNOFILE=")
	limit, _, _ = strings.Cut(limit, "\n")
	files, err := strconv.Atoi(limit)
	if err != nil {
		t.Fatal(err)
	}
	v, err := startEmbedded(t).server.(*embedded).Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	if v.MaxConn > files/2 || v.MaxConn < 20_000 {
		t.Errorf("NATS takes %d connections, where the origin may have %d files", v.MaxConn, files)
	}
}

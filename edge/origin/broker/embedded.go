package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"partneredge/edge/hosts"
	"partneredge/edge/logging"
	"partneredge/edge/origin/natsauth"
	"partneredge/edge/wire"
)

const (
	// startTime bounds the time until the embedded server takes connections, and that until it
	// has taken the origin's own.
	startTime = time.Minute
	// maxConnections bounds the connections of nodes, and of whoever else reaches the port.
	// Each takes a file, and edge-origin.service allows twice as many.
	maxConnections = 32768
)

// embedded is the server of this process.
type embedded struct {
	*server.Server
	authority *natsauth.Authority
	resolver  *server.MemAccResolver
	leaves    bool   // it takes the servers of regions
	leafURL   string // at which it does
	limited   *logging.Limiter
	users     *users // nil before there are any
}

// embed starts a server and connects to it without the network.
func (b *Broker) embed() error {
	e, err := b.config.newServer()
	if err != nil {
		return fmt.Errorf("starting NATS: %w", err)
	}
	b.server = e
	fatal := make(chan string, 1)
	e.limited = logging.New(b.config.Log)
	e.SetLoggerV2(natsLog{b.config.Log, e.limited, fatal}, false, false, false)
	e.Start()
	if err := e.awaitReady(fatal); err != nil {
		return fmt.Errorf("starting NATS on %s: %w", b.config.Listen, err)
	}
	b.url = e.ClientURL()
	for _, listen := range []string{b.config.Listen, b.config.LeafListen} {
		if b.config.Certificate == nil && listen != "" && hosts.Exposed(listen) {
			b.config.Log.Warn("NATS listens off this machine without TLS: give it a certificate", "listen", listen)
		}
	}
	if e.leaves {
		if err := b.renewShared(e); err != nil {
			return fmt.Errorf("starting NATS for regions: %w", err)
		}
	}
	if e.users, err = e.boundUsers(); err != nil {
		return fmt.Errorf("bounding the connections to NATS of each user: %w", err)
	}
	credentials, err := b.config.Authority.OriginUser()
	if err == nil {
		err = b.connect("", nats.InProcessServer(e.Server), nats.UserCredentialBytes([]byte(credentials)), nats.Timeout(startTime))
	}
	if err != nil {
		return fmt.Errorf("connecting to the embedded NATS: %w", err)
	}
	return nil
}

// newServer returns the embedded server, which has not been started.
func (c Config) newServer() (*embedded, error) {
	host, port, err := splitListen(c.Listen)
	if err != nil {
		return nil, err
	}
	a := c.Authority
	_, system, err := a.SignSystem(c.Revoked)
	if err != nil {
		return nil, fmt.Errorf("signing the system account: %w", err)
	}
	_, account, err := a.SignAccount(c.Revoked)
	if err != nil {
		return nil, fmt.Errorf("signing the account: %w", err)
	}
	e := &embedded{authority: a, resolver: &server.MemAccResolver{}, leaves: c.LeafListen != ""}
	if err := errors.Join(e.resolver.Store(a.SystemID, system), e.resolver.Store(a.AccountID, account)); err != nil {
		return nil, err
	}
	opts := &server.Options{
		ServerName: "edge-origin",
		Host:       host,
		Port:       port,
		NoSigs:     true, // signals are the program's
		MaxPayload: wire.MaxPayload,
		MaxConn:    maxConnections,
		MaxPending: natsauth.MaxPending,
		// A reader for whom three quarters of MaxPending wait misses what is sent to it. Else
		// it would hold up the origin's connection, and a region's server would have any
		// number of bytes wait for it.
		NoFastProducerStall: true,
		PingInterval:        20 * time.Second, // a node that is gone is noticed in a minute
		// A thousand nodes come back at once, perhaps to a slow machine.
		AuthTimeout:     cmp.Or(c.HandshakeTimeout, 10*time.Second).Seconds(),
		WriteDeadline:   10 * time.Second,
		TrustedKeys:     []string{a.OperatorID},
		SystemAccount:   a.SystemID,
		AccountResolver: e.resolver,
	}
	if c.Certificate != nil {
		opts.TLS = true
		opts.TLSConfig = &tls.Config{GetCertificate: c.Certificate, MinVersion: tls.VersionTLS13}
		opts.TLSTimeout = cmp.Or(c.HandshakeTimeout, 5*time.Second).Seconds()
	}
	if e.leaves {
		if opts.LeafNode.Host, opts.LeafNode.Port, err = splitListen(c.LeafListen); err != nil {
			return nil, err
		}
		opts.LeafNode.AuthTimeout = opts.AuthTimeout
		opts.LeafNode.TLSConfig, opts.LeafNode.TLSTimeout = opts.TLSConfig, opts.TLSTimeout
	}
	e.Server, err = server.NewServer(opts)
	return e, err
}

// renewShared keeps the credentials of regions' servers going that an earlier program
// made.
func (b *Broker) renewShared(e *embedded) (err error) {
	if e.leafURL, err = b.config.leafURL(e); err != nil {
		return err
	}
	renewed, err := b.config.Authority.RenewShared(b.config.Dir)
	if len(renewed) > 0 {
		b.config.Log.Warn("the credentials of regions' NATS servers were made anew, since what these may do has changed: copy them there and restart the servers, or enrol each region's",
			"files", renewed)
	}
	return err
}

// LeafURL returns the address that the servers of regions connect to, "" where none may
// or a cluster takes them.
func (b *Broker) LeafURL() string {
	if e, ok := b.server.(*embedded); ok {
		return e.leafURL
	}
	return ""
}

// Leaves returns the names of the servers of regions that are connected, as they say
// themselves. known is false where a cluster takes them.
func (b *Broker) Leaves() (names map[string]bool, known bool) {
	e, known := b.server.(*embedded)
	if !known {
		return nil, false
	}
	names = make(map[string]bool)
	if all, err := e.Leafz(nil); err == nil {
		for _, leaf := range all.Leafs {
			if leaf.Account == e.authority.AccountID {
				names[leaf.Name] = true
			}
		}
	}
	return names, true
}

// leafURL returns the address that the servers of regions connect to.
func (c Config) leafURL(e *embedded) (string, error) {
	host, _, err := net.SplitHostPort(c.LeafListen)
	if err != nil {
		return "", err
	}
	listening, err := e.Varz(nil)
	if err != nil {
		return "", err
	}
	scheme := "nats"
	if c.Certificate != nil {
		scheme = "tls"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(listening.LeafNode.Port)), nil
}

// splitListen returns addr in the server's own terms: every address is 0.0.0.0, any
// free port is -1.
func splitListen(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = net.LookupPort("tcp", text)
	if err != nil {
		return "", 0, err
	}
	if host == "" {
		host = "0.0.0.0"
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// awaitReady returns when the server takes connections. The server reports a port
// that is taken, and the like, only by a line to its log, which fatal receives.
func (e *embedded) awaitReady(fatal <-chan string) error {
	deadline := time.Now().Add(startTime)
	for !e.ReadyForConnections(20 * time.Millisecond) {
		select {
		case why := <-fatal:
			return errors.New(why)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %s", startTime)
		}
	}
	return nil
}

func (e *embedded) revoke(_ context.Context, revoked map[string]time.Time) error {
	var account string
	for id, sign := range map[string]func(map[string]time.Time) (*jwt.AccountClaims, string, error){
		e.authority.AccountID: e.authority.SignAccount, e.authority.SystemID: e.authority.SignSystem,
	} {
		claims, text, err := sign(revoked)
		if err != nil {
			return err
		}
		if err := e.resolver.Store(id, text); err != nil {
			return err
		}
		present, err := e.LookupAccount(id)
		if err != nil {
			return err
		}
		e.UpdateAccountClaims(present, claims)
		if id == e.authority.AccountID {
			account = text
		}
	}
	if !e.leaves {
		return nil
	}
	return e.announce(account)
}

// announce hands the account's new JWT to the servers of regions that are connected. It
// does so over a connection that is open, as strangers may hold all places for another.
func (e *embedded) announce(account string) error {
	if err := e.users.conn.Publish(natsauth.ClaimsUpdate, []byte(account)); err != nil {
		return err
	}
	return e.users.conn.Flush()
}

func (e *embedded) close() {
	if e.users != nil {
		e.users.conn.Close()
	}
	e.Shutdown()
	e.WaitForShutdown()
}

// natsLog passes the server's log on to slog. Debug and trace, which would show
// messages, are off.
type natsLog struct {
	log     *slog.Logger
	limited *logging.Limiter
	fatal   chan<- string // holds the first
}

func (l natsLog) Noticef(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }
func (l natsLog) Warnf(format string, v ...any)   { l.warn(format, v) }
func (l natsLog) Errorf(format string, v ...any)  { l.warn(format, v) }
func (natsLog) Debugf(string, ...any)             {}
func (natsLog) Tracef(string, ...any)             {}

// warn is rate-limited: whoever reaches the port can bring most warnings about,
// as often as they like, and choose words of those about their own connection.
func (l natsLog) warn(format string, v []any) {
	kind := format
	if strings.Contains(format, " - cid:") {
		kind = "connection"
	}
	l.limited.Warn(kind, "nats: "+fmt.Sprintf(format, v...))
}

func (l natsLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Error("nats: " + text)
	select {
	case l.fatal <- text:
	default:
	}
}

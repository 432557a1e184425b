package origin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"partneredge/edge/certificate"
	"partneredge/edge/logging"
	"partneredge/edge/wire"
)

// broker is the NATS that origin and nodes meet at: a server inside this
// process, or a cluster elsewhere. conn is the origin's own connection.
type broker struct {
	authority *authority
	log       *slog.Logger
	conn      *nats.Conn
	url       string // what nodes connect to

	embedded *server.Server // nil with a cluster
	resolver *server.MemAccResolver
	cluster  cluster

	mu      sync.Mutex
	revoked map[string]time.Time // what the servers were last told
	told    time.Time            // when
}

const (
	maxPending = 64 << 20 // bytes that wait for a slow reader
	// tellAgain is how soon a cluster is told once more who is revoked: a server
	// that was down meanwhile comes back with what it knew.
	tellAgain = 10 * time.Second
)

// cluster says how to reach a NATS cluster of one's own.
type cluster struct {
	url         string
	credentials string // file; "" mints a user with the account's key
	ca          string // file; "" trusts the system's
}

// embed starts a server that listens on addr, with TLS when there is a
// certificate, and connects to it without the network.
func embed(a *authority, addr string, get certificate.Get, revoked map[string]time.Time, log *slog.Logger) (*broker, error) {
	host, port, err := splitListen(addr)
	if err != nil {
		return nil, fmt.Errorf("starting NATS: %w", err)
	}

	b := &broker{authority: a, log: log, resolver: &server.MemAccResolver{}, revoked: maps.Clone(revoked)}
	system, err := a.systemJWT()
	if err != nil {
		return nil, fmt.Errorf("starting NATS: signing the system account: %w", err)
	}
	account, err := a.accountClaims(revoked).Encode(a.operator)
	if err != nil {
		return nil, fmt.Errorf("starting NATS: signing the account: %w", err)
	}
	if err := errors.Join(b.resolver.Store(a.systemID, system), b.resolver.Store(a.accountID, account)); err != nil {
		return nil, fmt.Errorf("starting NATS: %w", err)
	}

	opts := &server.Options{
		ServerName:      "edge-origin",
		Host:            host,
		Port:            port,
		NoSigs:          true, // signals are the program's
		MaxPayload:      wire.MaxPayload,
		MaxPending:      maxPending,
		PingInterval:    20 * time.Second, // a node that is gone is noticed in a minute
		WriteDeadline:   10 * time.Second,
		TrustedKeys:     []string{a.operatorID},
		SystemAccount:   a.systemID,
		AccountResolver: b.resolver,
	}
	if get != nil {
		opts.TLS = true
		opts.TLSConfig = &tls.Config{GetCertificate: get, MinVersion: tls.VersionTLS13}
		opts.TLSTimeout = 5
	}
	b.embedded, err = server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("starting NATS: %w", err)
	}
	fatal := make(chan string, 1)
	b.embedded.SetLoggerV2(natsLog{log, logging.New(log), fatal}, false, false, false)
	b.embedded.Start()
	if err := b.awaitReady(fatal, 10*time.Second); err != nil {
		b.close()
		return nil, fmt.Errorf("starting NATS on %s: %w", addr, err)
	}
	b.url = b.embedded.ClientURL()

	credentials, err := a.originUser()
	if err != nil {
		b.close()
		return nil, err
	}
	b.conn, err = nats.Connect("", append(b.options(), nats.InProcessServer(b.embedded), nats.UserCredentialBytes([]byte(credentials)))...)
	if err != nil {
		b.close()
		return nil, fmt.Errorf("connecting to the embedded NATS: %w", err)
	}
	return b, nil
}

// splitListen is addr in the server's own terms: every address is 0.0.0.0, any
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

// awaitReady returns when the server takes connections. It tells of a port that
// is taken, and the like, only by a line to its log.
func (b *broker) awaitReady(fatal <-chan string, within time.Duration) error {
	deadline := time.Now().Add(within)
	for !b.embedded.ReadyForConnections(20 * time.Millisecond) {
		select {
		case why := <-fatal:
			return errors.New(why)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %s", within)
		}
	}
	return nil
}

// join connects to a cluster, whose servers must include the file config, which
// is written first.
func join(a *authority, config string, c cluster, revoked map[string]time.Time, log *slog.Logger) (*broker, error) {
	b := &broker{authority: a, log: log, url: c.url, cluster: c}
	if err := errors.Join(a.writeJWTs(filepath.Dir(config), revoked), a.writeClusterConfig(config, revoked)); err != nil {
		return nil, fmt.Errorf("joining NATS: %w", err)
	}
	user, err := b.userOption(c.credentials, a.originUser)
	if err != nil {
		return nil, fmt.Errorf("joining NATS: %w", err)
	}
	b.conn, err = nats.Connect(c.url, append(b.options(), user...)...)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrNoServers):
		return nil, fmt.Errorf("joining NATS at %s: %w: do its servers run, and include %s?", c.url, err, config)
	case err != nil:
		return nil, fmt.Errorf("joining NATS at %s: %w", c.url, err)
	}
	if got := b.conn.MaxPayload(); got < wire.MaxPayload {
		b.close()
		return nil, fmt.Errorf("joining NATS at %s: its max_payload is %d, and must be at least %d", c.url, got, wire.MaxPayload)
	}
	return b, nil
}

func (b *broker) userOption(file string, mint func() (string, error)) ([]nats.Option, error) {
	var opts []nats.Option
	if b.cluster.ca != "" {
		opts = append(opts, nats.RootCAs(b.cluster.ca))
	}
	if file != "" {
		return append(opts, nats.UserCredentials(file)), nil
	}
	credentials, err := mint()
	if err != nil {
		return nil, err
	}
	return append(opts, nats.UserCredentialBytes([]byte(credentials))), nil
}

func (b *broker) options() []nats.Option {
	return []nats.Option{
		nats.Name("origin"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(500 * time.Millisecond),
		nats.IgnoreAuthErrorAbort(), // a server may come back before it has its configuration
		nats.Timeout(5 * time.Second),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			b.log.Warn("nats", "subject", subject, "err", err)
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				b.log.Warn("nats connection lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { b.log.Info("nats connection is back") }),
	}
}

// revoke tells the servers which users are revoked, when that is not what they
// know already. They end those users' connections at once.
func (b *broker) revoke(ctx context.Context, revoked map[string]time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	again := b.embedded == nil && len(revoked) > 0 && time.Since(b.told) > tellAgain
	if maps.EqualFunc(revoked, b.revoked, time.Time.Equal) && !again {
		return nil
	}
	claims := b.authority.accountClaims(revoked)
	text, err := claims.Encode(b.authority.operator) // also completes the claims
	if err != nil {
		return fmt.Errorf("revoking NATS users: %w", err)
	}
	if b.embedded != nil {
		err = b.revokeEmbedded(claims, text)
	} else {
		err = b.revokeInCluster(ctx, text)
	}
	if err != nil {
		return fmt.Errorf("revoking NATS users: %w", err)
	}
	b.revoked, b.told = maps.Clone(revoked), time.Now()
	return nil
}

func (b *broker) revokeEmbedded(claims *jwt.AccountClaims, text string) error {
	if err := b.resolver.Store(b.authority.accountID, text); err != nil {
		return err
	}
	account, err := b.embedded.LookupAccount(b.authority.accountID)
	if err != nil {
		return err
	}
	b.embedded.UpdateAccountClaims(account, claims)
	return nil
}

// revokeInCluster hands the account's new JWT to the cluster's resolver.
func (b *broker) revokeInCluster(ctx context.Context, text string) error {
	user, err := b.userOption("", b.authority.systemUser)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(b.cluster.url, append(user, nats.Name("origin revocation"), nats.Timeout(5*time.Second))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	reply, err := conn.RequestWithContext(ctx, "$SYS.REQ.CLAIMS.UPDATE", []byte(text))
	if err != nil {
		return err
	}
	var answer server.ServerAPIClaimUpdateResponse
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("the resolver refused: %s", answer.Error.Description)
	}
	return nil
}

// ready tells whether nodes can be reached.
func (b *broker) ready() bool { return b.conn.IsConnected() }

// close ends the connection and the server; it waits until the server is gone.
func (b *broker) close() {
	if b.conn != nil {
		b.conn.Close()
	}
	if b.embedded != nil {
		b.embedded.Shutdown()
		b.embedded.WaitForShutdown()
	}
}

// natsLog writes what the server has to say to slog. Debug and trace, which
// would show messages, are off.
type natsLog struct {
	log    *slog.Logger
	seldom *logging.Limiter
	fatal  chan<- string // holds the first
}

func (l natsLog) Noticef(format string, v ...any) { l.log.Debug("nats: " + fmt.Sprintf(format, v...)) }
func (l natsLog) Warnf(format string, v ...any)   { l.warn(format, v) }
func (l natsLog) Errorf(format string, v ...any)  { l.warn(format, v) }
func (natsLog) Debugf(string, ...any)             {}
func (natsLog) Tracef(string, ...any)             {}

// warn bounds what it says: whoever reaches the port can bring most of it about,
// as often as they like, and choose words of what is about their connection.
func (l natsLog) warn(format string, v []any) {
	kind := format
	if strings.Contains(format, " - cid:") {
		kind = "connection"
	}
	l.seldom.Warn(kind, "nats: "+fmt.Sprintf(format, v...))
}

func (l natsLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Error("nats: " + text)
	select {
	case l.fatal <- text:
	default:
	}
}

package command

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/hint"
	"partneredge/edge/output"
	"partneredge/edge/service"
	"partneredge/store/durable"
)

// adminFlags are the flags that say where the admin API is.
type adminFlags struct{ url, tokenFile, ca, data string }

func (a *adminFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&a.url, "admin", "", "`URL` of the origin's admin API (default $EDGE_ADMIN_URL)")
	flags.StringVar(&a.tokenFile, "token-file", "", "`FILE` with an admin token (default $EDGE_ADMIN_TOKEN_FILE)")
	flags.StringVar(&a.ca, "admin-ca", "", "PEM `FILE` of who signs the admin API's certificate (default $EDGE_ADMIN_CA, or the system's)")
	flags.StringVar(&a.data, "data", "", "`DIR` of an `edge dev` or `edge origin` that runs here, in place of --admin and --token-file")
}

// client returns a client of the admin API, which is not asked yet.
func (a *adminFlags) client() (*adminapi.Client, error) {
	client, err := a.unsecured()
	ca := cmp.Or(a.ca, os.Getenv("EDGE_ADMIN_CA"))
	if err == nil && ca != "" && client.HTTP == nil { // --data knows whom to trust
		client.HTTP, err = trusting(ca)
	}
	return client, err
}

// trusting returns an HTTP client that trusts the certificates of a file, and no others.
func trusting(file string) (*http.Client, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading --admin-ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("reading --admin-ca: %s holds no certificate in PEM", file)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: transport, Timeout: adminapi.Timeout}, nil
}

// unsecured returns a client that trusts whom the system trusts.
func (a *adminFlags) unsecured() (*adminapi.Client, error) {
	if a.data != "" {
		return localClient(a.data)
	}
	address := cmp.Or(a.url, os.Getenv("EDGE_ADMIN_URL"))
	tokenFile := cmp.Or(a.tokenFile, os.Getenv("EDGE_ADMIN_TOKEN_FILE"))
	const how = "give --admin URL and --token-file FILE, or EDGE_ADMIN_URL and EDGE_ADMIN_TOKEN_FILE, or --data DIR of an edge dev"
	if address == "" || tokenFile == "" {
		return nil, usagef(how, "it is not said where the admin API is, or with which token")
	}
	if !isHTTP(address) {
		return nil, usagef(how, "%q is no address such as http://127.0.0.1:8090", address)
	}
	return newClient(address, tokenFile, "the origin keeps one in DIR/admin.token; edge token create makes more")
}

// isHTTP reports whether address is an absolute URL of http or https.
func isHTTP(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

func newClient(address, tokenFile, advice string) (*adminapi.Client, error) {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, hint.Add(fmt.Errorf("reading the admin token: %w", err), "%s", advice)
	}
	return &adminapi.Client{URL: strings.TrimSuffix(address, "/"), Token: strings.TrimSpace(string(token))}, nil
}

// localClient returns a client for the edge dev, or the edge origin, that runs
// over dir. It calls by no proxy: the origin is on this machine.
func localClient(dir string) (*adminapi.Client, error) {
	var dev devReady
	err := durable.ReadJSON(filepath.Join(dir, "dev.json"), &dev)
	if err == nil {
		return &adminapi.Client{URL: dev.Origin.AdminURL, Token: dev.Origin.AdminToken, HTTP: direct(nil)}, nil
	}
	var origin originReady
	if errors.Is(err, os.ErrNotExist) {
		err = durable.ReadJSON(filepath.Join(dir, "origin.json"), &origin)
	}
	if err != nil {
		return nil, hint.Add(fmt.Errorf("finding the origin: %w", err), "is edge dev, or edge origin, running over %s?", dir)
	}
	token := cmp.Or(origin.AdminToken, filepath.Join(dir, adminTokenFile))
	client, err := newClient(loopback(origin.AdminURL), token, "the origin reads it there: may this user?")
	switch {
	case err != nil:
	case origin.AdminCertificate == "":
		client.HTTP = direct(nil)
	default:
		client.HTTP, err = pinned(origin.AdminCertificate)
	}
	return client, err
}

// direct returns an HTTP client that calls by no proxy, whatever the environment says: one
// would be sent the token, in clear where there is no TLS.
func direct(security *tls.Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.TLSClientConfig = security
	return &http.Client{Transport: transport, Timeout: adminapi.Timeout}
}

// loopback returns an address with loopback in place of a listener's unspecified host.
func loopback(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsUnspecified() {
		u.Host = net.JoinHostPort("127.0.0.1", u.Port()) // Go listens for both families on [::]
	}
	return u.String()
}

// pinned returns an HTTP client that trusts the certificate of a file and no other,
// whatever its names: those are the origin's for others, not for this machine.
func pinned(file string) (*http.Client, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the admin API's certificate: %w", err)
	}
	block, rest := pem.Decode(text)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, fmt.Errorf("reading the admin API's certificate: %s holds none in PEM", file)
	}
	return direct(&tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // VerifyConnection is stricter
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return fmt.Errorf("another certificate than that of %s is served", file)
			}
			return nil
		},
	}), nil
}

// adminHint adds advice to an error of the admin API.
func adminHint(err error) error {
	refused, ok := errors.AsType[*adminapi.Error](err)
	if !ok {
		unheard := !errors.Is(err, adminapi.ErrTooLong) && !errors.Is(err, context.Canceled)
		if err != nil && strings.HasPrefix(err.Error(), "admin API: ") && unheard {
			return hint.Add(err, "is the origin running, and is this its address?")
		}
		return err
	}
	if refused.Location != "" {
		return hint.Add(err, "is that the admin API's address? then give it as --admin or EDGE_ADMIN_URL")
	}
	code := strings.ReplaceAll(strings.TrimSpace(refused.Kind+" "+refused.Reason), "_", " ")
	reason := cmp.Or(refused.Detail, code, fmt.Sprintf("status %d", refused.Status))
	advice := "run the command with --help to see what it takes"
	switch refused.Status {
	case http.StatusUnauthorized:
		advice = "the token is wrong or revoked, or has expired: check the token file"
	case http.StatusForbidden:
		advice = "ask an admin for a token of that role (edge token create --role ROLE)"
	case http.StatusNotFound:
		advice = "list what there is: edge account list, edge key list ACCOUNT, edge token list, edge release list"
	case http.StatusConflict:
		advice = "look at its state first; it may have been changed by somebody else"
	}
	advice = cmp.Or(rolloutAdvice(refused.Reason), advice)
	before, after, _ := strings.Cut(err.Error(), refused.Error()) // what was done until then, or went wrong besides
	return hint.Add(fmt.Errorf("%sthe origin refused: %s%s", before, reason, after), "%s", advice)
}

// invocation is one run of an operators' command.
type invocation struct {
	output.Printer
	cmd    *cobra.Command
	args   []string
	stderr io.Writer
	admin  *adminapi.Client // nil in a command that newLocalCommand made
}

// handler does the work of an operators' command.
type handler func(context.Context, *invocation) error

// newLocalCommand makes an operators' command that works without the admin API.
// define adds its flags, and returns what reads them.
func newLocalCommand(use, summary string, define func(*pflag.FlagSet) handler) *cobra.Command {
	c := new(invocation)
	cmd := newCommand(use, summary, nil)
	cmd.Flags().BoolVar(&c.JSON, "json", false, "print JSON")
	run := define(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.cmd, c.args, c.Out, c.stderr = cmd, args, cmd.OutOrStdout(), cmd.ErrOrStderr()
		return adminHint(run(cmd.Context(), c))
	}
	return cmd
}

// newAdminCommand is newLocalCommand for a command that calls the admin API.
func newAdminCommand(use, summary string, define func(*pflag.FlagSet) handler) *cobra.Command {
	return newLocalCommand(use, summary, func(flags *pflag.FlagSet) handler {
		var admin adminFlags
		admin.register(flags)
		flags.Lookup("json").Usage = "print JSON: the admin API's answer"
		run := define(flags)
		return func(ctx context.Context, c *invocation) (err error) {
			if c.admin, err = admin.client(); err != nil {
				return err
			}
			return run(ctx, c)
		}
	})
}

// newRecordCommand makes a command that sends in by a call such as
// "PATCH /accounts/%s", and shows the record that answers it. Each %s is an
// argument of the command.
func newRecordCommand(use, summary, call string, in any, columns ...string) *cobra.Command {
	method, path, _ := strings.Cut(call, " ")
	return newAdminCommand(use, summary, func(*pflag.FlagSet) handler {
		return func(ctx context.Context, c *invocation) error {
			return c.record(ctx, method, c.path(path), in, columns...)
		}
	})
}

// newListCommand makes a command that shows every record of a list. Each %s in
// path is an argument of the command.
func newListCommand(use, summary, path string, columns ...string) *cobra.Command {
	return newAdminCommand(use, summary, func(*pflag.FlagSet) handler {
		return func(ctx context.Context, c *invocation) error {
			return c.list(ctx, c.path(path), nil, 0, columns...)
		}
	})
}

// path puts the arguments in the places of %s.
func (c *invocation) path(format string) string {
	var escaped []any
	for _, a := range c.args {
		escaped = append(escaped, url.PathEscape(a))
	}
	return fmt.Sprintf(format, escaped...)
}

// record shows the record that answers a call.
func (c *invocation) record(ctx context.Context, method, path string, in any, columns ...string) error {
	var raw json.RawMessage
	if err := c.admin.Call(ctx, method, path, in, &raw); err != nil {
		return err
	}
	return c.Print(raw, func(w io.Writer) { output.Fields(w, raw, columns...) })
}

// list shows up to most records, 0 for all, that a query finds.
func (c *invocation) list(ctx context.Context, path string, query url.Values, most int, columns ...string) error {
	records := []map[string]any{}
	for record, err := range adminapi.All[map[string]any](ctx, c.admin, path, query) {
		if err != nil {
			return err
		}
		if records = append(records, record); len(records) == most {
			break
		}
	}
	return c.Records(records, columns...)
}

// secret shows the field that is shown only once alone on standard output, for scripts,
// and the id of its record on standard error.
func (c *invocation) secret(ctx context.Context, path string, in any, record, field string) error {
	raw, made, err := call[map[string]any](ctx, c.admin, http.MethodPost, path, in)
	if err != nil {
		return err
	}
	text, _ := made[field].(string)
	if text == "" {
		return fmt.Errorf("admin API: POST %s: the answer has no %s", path, field)
	}
	shown, _ := made[record].(map[string]any)
	return c.showOnce(raw, text+"\n", record, fmt.Sprint(shown["id"]))
}

// showOnce prints what no later call returns: raw as JSON, or text alone on standard output,
// and the id of its record on standard error. Where it cannot, its error says how to void it.
func (c *invocation) showOnce(raw json.RawMessage, text, record, id string) (err error) {
	defer service.SurviveBrokenPipes()() // else nothing would say the id
	id = output.Plain(id)
	if c.JSON {
		err = c.Print(raw, nil)
	} else {
		_, err = io.WriteString(c.Out, output.Lines(text))
	}
	if err != nil {
		return lostOnce(err, record, id)
	}
	if !c.JSON {
		_, err = fmt.Fprintf(c.stderr, "%s %s: keep what is printed, it is not shown again\n", record, id)
	}
	return err
}

// lostOnce is the error of a secret that is made and shown to nobody.
func lostOnce(err error, record, id string) error {
	made, advice := record+" "+id, fmt.Sprintf("edge %s revoke %s, and make another", record, id)
	if record == "webhook" { // which is not made, but has a new secret
		made, advice = "the new secret of "+made, fmt.Sprintf("edge webhook rotate %s makes another", id)
	}
	return hint.Add(fmt.Errorf("%s is made, but what is shown once is lost: %w", made, err), "%s", advice)
}

// call returns the JSON that answers a call of the admin API, and the record in it.
func call[T any](ctx context.Context, admin *adminapi.Client, method, path string, in any) (raw json.RawMessage, record T, err error) {
	if err := admin.Call(ctx, method, path, in, &raw); err != nil {
		return nil, record, err
	}
	return raw, record, json.Unmarshal(raw, &record)
}

// reconnecting prints that a stream ended, and when it goes on.
func reconnecting(stderr io.Writer) func(error, time.Duration) {
	return func(err error, wait time.Duration) {
		fmt.Fprintf(stderr, "edge: %s; trying again in %s\n", output.Lines(err.Error()), wait)
	}
}

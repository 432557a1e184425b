package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aead.dev/minisign"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/closers"
	"partneredge/edge/hint"
	"partneredge/edge/localwebhook"
	"partneredge/edge/output"
	"partneredge/edge/release"
	"partneredge/edge/tracing"
	"partneredge/edge/wire"
	"partneredge/wasm/network"
)

// logFlags are --log-level and --log-format.
type logFlags struct {
	level  slog.Level
	format string
}

func (l *logFlags) register(flags *pflag.FlagSet, level slog.Level) {
	flags.TextVar(&l.level, "log-level", level, "least `LEVEL` that is logged: debug, info, warn, error")
	flags.StringVar(&l.format, "log-format", "text", "`FORMAT` of the log on standard error: text or json")
}

func (l *logFlags) logger(cmd *cobra.Command) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: l.level}
	switch l.format {
	case "json":
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), options)), nil
	case "text":
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), options)), nil
	}
	return nil, misused(cmd, "--log-format is text or json, not %q", l.format)
}

// prefixes is the value of a flag of networks in CIDR form, or single addresses:
// by comma, or the flag again.
type prefixes []netip.Prefix

func (p *prefixes) Type() string { return "prefixes" }

func (p *prefixes) String() string {
	var all []string
	for _, one := range *p {
		all = append(all, one.String())
	}
	return strings.Join(all, ",")
}

func (p *prefixes) Set(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		prefix, ok := network.Parse(one)
		if !ok {
			return fmt.Errorf("%q is no network such as 10.0.0.0/8", one)
		}
		*p = append(*p, prefix)
	}
	return nil
}

// seconds is the value of a flag of a duration that is sent in whole seconds.
type seconds time.Duration

// newSeconds defines a flag of seconds.
func newSeconds(flags *pflag.FlagSet, name string, value time.Duration, usage string) *seconds {
	s := seconds(value)
	flags.Var(&s, name, usage)
	return &s
}

func (s *seconds) count() *int64 { return new(int64(time.Duration(*s) / time.Second)) }

func (s *seconds) Type() string   { return "duration" }
func (s *seconds) String() string { return time.Duration(*s).String() }

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if d%time.Second != 0 {
		return fmt.Errorf("%q is no whole number of seconds", text)
	}
	*s = seconds(d)
	return nil
}

// names is the value of a flag of words by comma; the flag again replaces them.
type names []string

func (n *names) Type() string   { return "names" }
func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(text string) error {
	*n = nil
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		if !wire.IsRegion(one) {
			return fmt.Errorf("%q is no name of lower-case letters, digits and dashes", one)
		}
		if slices.Contains(*n, one) {
			return fmt.Errorf("%q is named twice", one)
		}
		*n = append(*n, one)
	}
	return nil
}

// wordsOf splits the texts of flags at commas and spaces. One that is given without a word, as
// by a variable that is not set, is an error: it would choose all where some were meant.
func wordsOf(cmd *cobra.Command, into map[string]*[]string) error {
	for _, name := range slices.Sorted(maps.Keys(into)) {
		words := strings.FieldsFunc(cmd.Flag(name).Value.String(), func(r rune) bool { return r == ',' || r == ' ' })
		if len(words) == 0 && cmd.Flags().Changed(name) {
			return misused(cmd, "--%s is empty", name)
		}
		*into[name] = words
	}
	return nil
}

// filled returns an error for the first of the named flags that is given an empty text, as by a
// variable that is not set: without the flag, less is refused, or more is shown.
func filled(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flag(name); f.Changed && f.Value.String() == "" {
			return misused(cmd, "--%s is empty", name)
		}
	}
	return nil
}

// outFile returns the path at which the file of a flag is to be made or replaced. It follows
// links, so that none of the system's own is replaced, such as /dev/stdout, and refuses what
// is there and no file: a device or a pipe would become one.
func outFile(name, advice string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return name, nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", hint.Add(fmt.Errorf("%s is no file", output.Plain(name)), "%s", advice)
	}
	return filepath.EvalSymlinks(name)
}

// hostNames is the value of a flag of DNS names: by comma, or the flag again.
type hostNames []string

func (h *hostNames) Type() string   { return "hosts" }
func (h *hostNames) String() string { return strings.Join(*h, ",") }

func (h *hostNames) Set(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		one = strings.ToLower(strings.TrimSpace(one))
		labels := strings.Split(one, ".")
		if len(labels) < 2 || slices.ContainsFunc(labels, func(label string) bool {
			return !wire.IsRegion(strings.ReplaceAll(label, "_", "")) || strings.HasSuffix(label, "-")
		}) {
			return fmt.Errorf("%q is no host name such as eu.example.com", one)
		}
		*h = append(*h, one)
	}
	return nil
}

// traceFlags are --trace-endpoint and --trace-ratio.
type traceFlags struct {
	endpoint string
	ratio    float64
}

func (t *traceFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&t.endpoint, "trace-endpoint", "", "`URL` of an OpenTelemetry collector that takes traces by OTLP over HTTP, such as http://127.0.0.1:4318 (default: none are made)")
	flags.Float64Var(&t.ratio, "trace-ratio", 0.1, "`PART` of requests that are traced, from 0 to 1")
}

func (t *traceFlags) validate(cmd *cobra.Command) error {
	if !(t.ratio >= 0 && t.ratio <= 1) { // nor NaN
		return misused(cmd, "--trace-ratio must be from 0 to 1")
	}
	return nil
}

// start returns a nil tracer where no requests are to be traced. It adds the end of
// the tracer to started, which sends the traces that are left: for traceStopTime at most,
// since a collector that hangs must not take the time that the other parts have to stop.
func (t *traceFlags) start(ctx context.Context, c tracing.Config, started *closers.Stack) (*tracing.Tracer, error) {
	c.Endpoint, c.Ratio = t.endpoint, t.ratio
	tracer, err := tracing.Start(ctx, c)
	started.Add(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, traceStopTime)
		defer cancel()
		err := tracer.Stop(ctx)
		if errors.Is(err, context.DeadlineExceeded) { // a collector that is away is no fault of ours
			c.Log.Warn("the last traces are lost: the collector did not take them before the stop", "waited", traceStopTime)
			return nil
		}
		return err
	})
	return tracer, err
}

// traceStopTime bounds the sending of the traces that are left at a stop.
const traceStopTime = 2 * time.Second

// releaseFlags name the releases that a node runs. Nothing but its own flags can
// change that.
type releaseFlags struct{ keyFile, least string }

// register declares the flags; without says what is trusted without --release-keys.
func (r *releaseFlags) register(flags *pflag.FlagSet, without string) {
	flags.StringVar(&r.keyFile, "release-keys", "", "`FILE` of the operators' minisign public keys, one a line: releases that none of them signed are refused (default: "+without+")")
	flags.StringVar(&r.least, "min-release", "", "least `VERSION` of a release that is run (default: any)")
}

func (r *releaseFlags) keys() ([]minisign.PublicKey, error) {
	if r.keyFile == "" {
		return nil, nil
	}
	keys, err := release.ReadKeys(r.keyFile)
	return keys, hint.Add(err, "edge release keygen makes a pair of keys; give the public one")
}

// secretFlags are the flags that say which secret events are signed with on a
// developer's machine.
type secretFlags struct{ text, file string }

func (s *secretFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.text, "secret", "", "`TEXT` of the signing secret (default: that of --secret-file)")
	flags.StringVar(&s.file, "secret-file", "", "`FILE` of the signing secret, made with a new one where it is missing (default: webhook-secret in the user's folder of configuration)")
}

// namedSecret is a signing secret and where it came from.
type namedSecret struct {
	text   string
	origin string // "--secret", or "the secret in FILE"
}

// get returns the secret of --secret, or of the file.
func (s *secretFlags) get(cmd *cobra.Command) (namedSecret, error) {
	switch {
	case cmd.Flags().Changed("secret") && s.file != "":
		return namedSecret{}, misused(cmd, "--secret and --secret-file exclude each other")
	case cmd.Flags().Changed("secret") && s.text == "":
		return namedSecret{}, misused(cmd, "--secret is empty")
	case s.text != "":
		return namedSecret{s.text, "the secret of --secret"}, nil
	}
	file := s.file
	if file == "" {
		var err error
		if file, err = localwebhook.SecretFile(); err != nil {
			return namedSecret{}, hint.Add(err, "give --secret TEXT or --secret-file FILE")
		}
	}
	text, err := localwebhook.Secret(file)
	return namedSecret{text, "the secret in " + file}, err
}

// selection holds flags that select a part of a list, by their names in the query.
type selection map[string]*string

// span adds --since and --until, which select some by their time.
func (s selection) span(flags *pflag.FlagSet, some string) {
	s["since"] = flags.String("since", "", "only "+some+" from this `TIME` on: RFC 3339, or a duration before now")
	s["until"] = flags.String("until", "", "only "+some+" before this `TIME`, likewise")
}

// query returns the query of the flags that are given.
func (s selection) query(cmd *cobra.Command) (url.Values, error) {
	query := url.Values{}
	for name, value := range s {
		text := *value
		if text == "" {
			continue
		}
		if name == "since" || name == "until" {
			at, err := timeOrAge(cmd, name, text)
			if err != nil {
				return nil, err
			}
			text = at.UTC().Format(time.RFC3339Nano)
		}
		query.Set(name, text)
	}
	return query, nil
}

// timeOrAge reads a flag that is a time, or how long before now it was.
func timeOrAge(cmd *cobra.Command, flag, text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	before, err := time.ParseDuration(text)
	if err != nil || before < 0 {
		return time.Time{}, misused(cmd, "--%s %q is neither a time such as 2026-01-31T12:00:00Z nor a duration such as 24h", flag, text)
	}
	return time.Now().Add(-before), nil
}

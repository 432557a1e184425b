package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
)

// errHelp says that help was asked for, and given.
var errHelp = errors.New("help was given")

// flags are the flags of one verb.
type flags struct {
	*flag.FlagSet
	usage  string
	stderr io.Writer
	level  slog.Level
	format string
}

func newFlags(name, usage string, stderr io.Writer) *flags {
	f := &flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), usage: usage, stderr: stderr}
	f.SetOutput(io.Discard) // parse prints
	return f
}

// logging adds --log-level and --log-format.
func (f *flags) logging(level slog.Level) {
	f.level = level
	f.TextVar(&f.level, "log-level", level, "least `LEVEL` that is logged: debug, info, warn, error")
	f.StringVar(&f.format, "log-format", "text", "`FORMAT` of the log on standard error: text or json")
}

// parse reads args, all of which must be flags.
func (f *flags) parse(args []string) error {
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.help()
		return errHelp
	case err != nil:
		return usagef(f.hint(), "%s: %v", f.Name(), err)
	case f.NArg() > 0:
		return usagef(f.hint(), "%s: unexpected argument %q", f.Name(), f.Arg(0))
	case f.format != "" && f.format != "text" && f.format != "json":
		return usagef(f.hint(), "%s: --log-format is text or json, not %q", f.Name(), f.format)
	}
	return nil
}

func (f *flags) hint() string { return fmt.Sprintf("run 'edge %s --help' to see its flags", f.Name()) }

// required fails for the first of the named flags that was left empty.
func (f *flags) required(names ...string) error {
	for _, name := range names {
		if f.Lookup(name).Value.String() == "" {
			return usagef(f.hint(), "%s: --%s is missing", f.Name(), name)
		}
	}
	return nil
}

func (f *flags) help() {
	fmt.Fprintf(f.stderr, "Usage: %s\n", f.usage)
	first := true
	f.VisitAll(func(one *flag.Flag) {
		if first {
			fmt.Fprint(f.stderr, "\nFlags:\n")
			first = false
		}
		name, text := flag.UnquoteUsage(one)
		fmt.Fprintf(f.stderr, "  --%-26s %s", strings.TrimSpace(one.Name+" "+name), text)
		if one.DefValue != "" && one.DefValue != "false" {
			fmt.Fprintf(f.stderr, " (default %s)", one.DefValue)
		}
		fmt.Fprintln(f.stderr)
	})
}

// logger is what --log-level and --log-format ask for.
func (f *flags) logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: f.level}
	if f.format == "json" {
		return slog.New(slog.NewJSONHandler(f.stderr, options))
	}
	return slog.New(slog.NewTextHandler(f.stderr, options))
}

// given tells whether a flag was on the command line.
func (f *flags) given(name string) (found bool) {
	f.Visit(func(one *flag.Flag) { found = found || one.Name == name })
	return found
}

// prefixes is a flag of networks in CIDR form, or single addresses: by comma, or
// the flag again.
type prefixes []netip.Prefix

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
		prefix, err := netip.ParsePrefix(one)
		if err != nil {
			addr, addrErr := netip.ParseAddr(one)
			if addrErr != nil || addr.Zone() != "" {
				return fmt.Errorf("%q is no network such as 10.0.0.0/8", one)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		*p = append(*p, prefix.Masked())
	}
	return nil
}

// names is a flag of words by comma; setting it again replaces them.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(text string) error {
	*n = nil
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		if !isName(one) {
			return fmt.Errorf("%q is no name of lower-case letters, digits and dashes", one)
		}
		for _, have := range *n {
			if have == one {
				return fmt.Errorf("%q is named twice", one)
			}
		}
		*n = append(*n, one)
	}
	return nil
}

// hostNames is a flag of DNS names: by comma, or the flag again.
type hostNames []string

func (h *hostNames) String() string { return strings.Join(*h, ",") }

func (h *hostNames) Set(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		one = strings.ToLower(strings.TrimSpace(one))
		for label := range strings.SplitSeq(one, ".") {
			if !isName(strings.ReplaceAll(label, "_", "")) || strings.HasSuffix(label, "-") {
				return fmt.Errorf("%q is no host name such as eu.example.com", one)
			}
		}
		if !strings.Contains(one, ".") {
			return fmt.Errorf("%q is no host name such as eu.example.com", one)
		}
		*h = append(*h, one)
	}
	return nil
}

// isName tells whether s may name a region: what is safe in a path and a label.
func isName(s string) bool {
	if s == "" || len(s) > 40 || s[0] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

package command

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// names is the value of a flag of words by comma; the flag again replaces them.
type names []string

func (n *names) Type() string   { return "names" }
func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(text string) error {
	*n = nil
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		if !isName(one) {
			return fmt.Errorf("%q is no name of lower-case letters, digits and dashes", one)
		}
		if slices.Contains(*n, one) {
			return fmt.Errorf("%q is named twice", one)
		}
		*n = append(*n, one)
	}
	return nil
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
			return !isName(strings.ReplaceAll(label, "_", "")) || strings.HasSuffix(label, "-")
		}) {
			return fmt.Errorf("%q is no host name such as eu.example.com", one)
		}
		*h = append(*h, one)
	}
	return nil
}

// isName reports whether s may name a region: text that is safe in a path and a
// label.
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

// Package command holds the commands of the program edge.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Main runs the command that args name, prints its error to stderr, and returns
// the exit code of the process.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return report(run(ctx, args, stdout, stderr), stderr)
}

// verb is one thing that the program can do.
type verb struct {
	name, summary string
	run           func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

func verbs() []verb {
	return []verb{
		{"dev", "run an origin and nodes in one process, on loopback, ready to be tried", runDev},
		{"origin", "run the origin: accounts, keys, leads, deliveries, admin API", runOrigin},
		{"node", "run a regional node: the partner API", runNode},
		{"account", "make, list and show accounts, switch them live", runOperations("account", accountOperations())},
		{"key", "make, list, rotate and revoke partners' keys", runOperations("key", keyOperations())},
		{"release", "pack, sign and push releases of modules; list, show and verify them", runOperations("release", releaseOperations())},
		{"deliveries", "list, show, retry, recover and follow webhook deliveries", runOperations("deliveries", deliveriesOperations())},
		{"listen", "show an account's events here, signed and verified, and forward them", runListen},
		{"token", "make, list and revoke admin tokens", runOperations("token", tokenOperations())},
		{"status", "show the nodes: regions, versions, lag, outboxes, sandboxes, hot keys", runStatus},
		{"backup", "write an origin's database and keys to one file, while it runs", runBackup},
		{"restore", "make an origin's directory from a backup", runRestore},
		{"sandbox", "run the whole partner API with data in memory, for a partner's tests", runSandbox},
		{"completion", "print a shell's completion script", runCompletion},
		{"man", "print the manual page", runMan},
		{"version", "print the version", runVersion},
	}
}

// run does what args say and returns when it is done or ctx is.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return usagef("run 'edge help' to see them", "no command given")
	}
	switch name := args[0]; name {
	case "help", "-h", "-help", "--help":
		return help(stdout)
	default:
		for _, v := range verbs() {
			if v.name != name {
				continue
			}
			err := v.run(ctx, args[1:], stdout, stderr)
			if errors.Is(err, errHelp) {
				return nil
			}
			return err
		}
		return usagef("run 'edge help' to see them", "unknown command %q", name)
	}
}

func help(w io.Writer) error {
	text := "Usage: edge COMMAND [flags]\n\nCommands:\n"
	for _, v := range verbs() {
		text += fmt.Sprintf("  %-11s %s\n", v.name, v.summary)
	}
	text += "  help        print this\n\nFlags of a command: edge COMMAND --help\n"
	_, err := io.WriteString(w, text)
	return err
}

// Exit codes: done, not done, and not understood.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// report prints err, with its hint where it has one, and returns the exit code.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "edge: %v\n", err)
	if h, ok := errors.AsType[*hinted](err); ok && h.hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", h.hint)
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// hinted is an error with what to do about it.
type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

// hint adds to err what to do about it; nil stays nil.
func hint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// usageError is a command line that cannot be understood.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(hintText, format string, args ...any) error {
	return hint(&usageError{fmt.Sprintf(format, args...)}, "%s", hintText)
}

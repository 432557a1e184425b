// Package command holds the commands of the program edge: a file for each
// command or group of commands, which reads its flags and does its work.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/hint"
	"partneredge/edge/output"
)

// Main runs the command that args name until it is done or ctx is, prints its
// error to stderr, and returns the exit code of the process. version is that of
// the program.
func Main(ctx context.Context, version string, args []string, stdout, stderr io.Writer) int {
	root := newRoot(version)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return report(root.ExecuteContext(ctx), stderr)
}

// usageTemplate lists a command's own commands with their arguments, and then its
// flags.
const usageTemplate = `Usage: {{.UseLine}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{if $.HasParent}}{{rpad .Use 22}}{{else}}{{rpad .Name 11}}{{end}} {{.Short}}{{end}}{{end}}{{end}}

Flags:
{{.LocalFlags.FlagUsages}}{{if .HasAvailableSubCommands}}
Flags of a command: {{.CommandPath}} COMMAND --help
{{end}}`

func newRoot(version string) *cobra.Command {
	root := newGroup("edge", "run and operate Partner Edge",
		newDev(), newOrigin(), newNode(),
		newAccount(), newKey(), newLead(), newTombstone(), newLockout(), newRequest(), newRegion(), newRelease(), newWebhook(), newDelivery(), newListen(), newTrigger(), newToken(), newAudit(), newStatus(),
		newBackup(), newRestore(), newSandbox(), newModule(), newCompletion(), newMan(), newVersion())
	root.RunE = func(_ *cobra.Command, args []string) error {
		const list = "run 'edge help' to see them"
		if len(args) == 0 {
			return usagef(list, "no command given")
		}
		return usagef(list, "unknown command %q", args[0])
	}
	root.Version = version
	root.SetVersionTemplate(versionLine(version))
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true // newCompletion is simpler
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		out := cmd.ErrOrStderr() // where the help of a command does not look like its result
		if cmd == root {
			out = cmd.OutOrStdout()
		}
		fmt.Fprintf(out, "%s: %s\n\n%s", cmd.CommandPath(), cmd.Short, cmd.UsageString())
	})
	return root
}

// newGroup makes a command that only has commands.
func newGroup(name, summary string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: name + " COMMAND", Short: summary, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		name := strings.TrimPrefix(cmd.CommandPath(), "edge ")
		list := fmt.Sprintf("run 'edge %s --help' to see them", name)
		switch {
		case len(args) == 0:
			return usagef(list, "%s: no operation given", name)
		case args[0] == "help":
			return cmd.Help()
		}
		return usagef(list, "%s: unknown operation %q", name, args[0])
	}}
	group.AddCommand(commands...)
	return group
}

// newCommand makes a command. use is its name, then the names of the arguments
// that it takes, the last of them in brackets if it may be left out, then flags for
// its usage line.
func newCommand(use, summary string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	_, rest, _ := strings.Cut(use, " ")
	var wanted []string
	optional := 0
	for word := range strings.FieldsSeq(rest) {
		if strings.HasPrefix(word, "-") || strings.HasPrefix(word, "[-") {
			break
		}
		if wanted = append(wanted, word); strings.HasPrefix(word, "[") {
			optional++
		}
	}
	return &cobra.Command{Use: use, Short: summary, RunE: run, Args: func(cmd *cobra.Command, args []string) error {
		if len(args) < len(wanted)-optional {
			return misused(cmd, "%s is missing", wanted[len(args)])
		}
		if len(args) > len(wanted) {
			return misused(cmd, "unexpected argument %q", args[len(wanted)])
		}
		return nil
	}}
}

func newVersion() *cobra.Command {
	return newCommand("version", "print the version", func(cmd *cobra.Command, _ []string) error {
		_, err := io.WriteString(cmd.OutOrStdout(), versionLine(cmd.Root().Version))
		return err
	})
}

func versionLine(version string) string {
	return fmt.Sprintf("edge %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
	fmt.Fprintf(stderr, "edge: %s\n", output.Lines(err.Error()))
	if h, ok := errors.AsType[*hint.Error](err); ok && h.Advice != "" {
		fmt.Fprintf(stderr, "hint: %s\n", output.Lines(h.Advice))
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// usageError is a command line that cannot be understood.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(hintText, format string, args ...any) error {
	return hint.Add(&usageError{fmt.Sprintf(format, args...)}, "%s", hintText)
}

// misused is a usageError of one command, with the hint to look at its flags.
func misused(cmd *cobra.Command, format string, args ...any) error {
	name := strings.TrimPrefix(cmd.CommandPath(), "edge ")
	return usagef(fmt.Sprintf("run 'edge %s --help' to see its flags", name), name+": "+format, args...)
}

// required returns an error for the first of the named flags that is empty.
func required(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if cmd.Flag(name).Value.String() == "" {
			return misused(cmd, "--%s is missing", name)
		}
	}
	return nil
}

// flagError is a usageError for an error of pflag.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown  *pflag.NotExistError
		valued   *pflag.ValueRequiredError
		rejected *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return misused(cmd, "flag provided but not defined: -%s", unknown.GetSpecifiedShortnames())
	case errors.As(err, &unknown):
		return misused(cmd, "flag provided but not defined: --%s", unknown.GetSpecifiedName())
	case errors.As(err, &valued):
		return misused(cmd, "flag needs an argument: --%s", valued.GetSpecifiedName())
	case errors.As(err, &rejected):
		return misused(cmd, "invalid value %q for flag --%s: %v", rejected.GetValue(), rejected.GetFlag().Name, rejected.Unwrap())
	}
	return misused(cmd, "%v", err)
}

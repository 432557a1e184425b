package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newMan() *cobra.Command {
	return newCommand("man", "print the manual page", func(cmd *cobra.Command, _ []string) error {
		_, err := io.WriteString(cmd.OutOrStdout(), manual(cmd.Root()))
		return err
	})
}

// manual returns the page edge(1) in man(7) macros.
func manual(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, `.TH EDGE 1 "" "edge %s" "Partner Edge"
.SH NAME
edge \- %s
.SH SYNOPSIS
.B edge
.I COMMAND
.RI [ flags ]
.SH COMMANDS
`, roff(root.Version), roff(root.Short))
	for _, cmd := range root.Commands() {
		fmt.Fprintf(&b, ".SS %s\n%s.\n", roff(cmd.CommandPath()), roff(cmd.Short))
		manFlags(&b, cmd)
		manCommands(&b, cmd)
	}
	b.WriteString(`.SH ENVIRONMENT
.TP
.B EDGE_ADMIN_URL
Address of the admin API, such as http://127.0.0.1:8090.
.TP
.B EDGE_ADMIN_TOKEN_FILE
File with an admin token.
.TP
.B EDGE_ADMIN_CA
PEM file of who signs the certificate of the admin API.
.TP
.B EDGE_RELEASE_PASSWORD
Password of the private key that signs releases.
.TP
.B EDGE_REGISTRY_USER
.br
.B EDGE_REGISTRY_PASSWORD
Credentials for the registry that edge release pull reads from.
.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
Not done: standard error says why, and in a line that begins with hint: what to do.
.TP
.B 2
The command line cannot be understood.
`)
	return b.String()
}

// manCommands writes the commands of a group.
func manCommands(w io.Writer, group *cobra.Command) {
	for _, cmd := range group.Commands() {
		fmt.Fprintf(w, ".TP\n.B %s\n%s.\n", roff(strings.TrimSuffix(cmd.UseLine(), " [flags]")), roff(cmd.Short))
		manFlags(w, cmd)
		manCommands(w, cmd)
	}
}

func manFlags(w io.Writer, cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name, text := pflag.UnquoteUsage(f)
		fmt.Fprintf(w, ".br\n.B %s\n%s\n", roff(strings.TrimSpace("--"+f.Name+" "+name)), roff(text))
	})
}

// roff escapes text.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

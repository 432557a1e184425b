package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

func runMan(_ context.Context, args []string, stdout, stderr io.Writer) error {
	if err := newFlags("man", "edge man > edge.1", stderr).parse(args); err != nil {
		return err
	}
	_, err := io.WriteString(stdout, manPage())
	return err
}

// manPage is edge(1) in man(7) macros, from the table of verbs.
func manPage() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`.TH EDGE 1 "" "edge %s" "Partner Edge"`, roff(version))
	line(".SH NAME\nedge \\- run and operate Partner Edge")
	line(".SH SYNOPSIS\n.B edge\n.I COMMAND\n.RI [ flags ]")
	line(".SH COMMANDS")
	for _, v := range verbs() {
		line(".SS %s\n%s.", roff("edge "+v.name), roff(v.summary))
		for _, op := range groups()[v.name] {
			line(".TP\n.B %s\n%s.", roff(strings.Join(strings.Fields("edge "+v.name+" "+op.name+" "+op.args), " ")), roff(op.summary))
			o, _, _, _ := newOperators(v.name, op, io.Discard)
			o.VisitAll(func(f *flag.Flag) {
				if f.Name == "admin" || f.Name == "token-file" || f.Name == "data" || f.Name == "json" {
					return // of all of them
				}
				name, text := flag.UnquoteUsage(f)
				line(".br\n.B %s\n%s", roff(strings.TrimSpace("--"+f.Name+" "+name)), roff(text))
			})
		}
	}
	line(".SH OPERATORS' FLAGS\naccount, deliveries, key, release and token take, but for what runs on its own:")
	o, _, _, _ := newOperators("", operation{}, io.Discard)
	o.VisitAll(func(f *flag.Flag) {
		name, text := flag.UnquoteUsage(f)
		line(".TP\n.B %s\n%s", roff(strings.TrimSpace("--"+f.Name+" "+name)), roff(text))
	})
	line(".SH ENVIRONMENT\n.TP\n.B EDGE_ADMIN_URL\nAddress of the admin API, such as http://127.0.0.1:8090.")
	line(".TP\n.B EDGE_ADMIN_TOKEN_FILE\nFile with an admin token.")
	line(".TP\n.B EDGE_RELEASE_PASSWORD\nPassword of the private key that signs releases.")
	line(".TP\n.B EDGE_REGISTRY_USER\n.br\n.B EDGE_REGISTRY_PASSWORD\nCredentials for the registry that edge release pull reads from.")
	line(".SH EXIT STATUS\n.TP\n.B 0\nDone.\n.TP\n.B 1\nNot done: standard error says why, and in a line that begins with hint: what to do.")
	line(".TP\n.B 2\nThe command line cannot be understood.")
	return b.String()
}

// roff escapes text.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

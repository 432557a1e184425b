package natsauth

import (
	"strings"
	"text/template"
	"time"

	"partneredge/edge/wire"
)

// conf is the configuration that NATS servers include: the trusted operator, the resolver
// of accounts and their revocations, and the limits of the embedded server. The
// resolver's directory is below the one where the server was started.
type conf struct {
	By                        string // which servers include it
	Name                      string // of the server; "": it has one of its own
	Operator, System, Account string // signed JWTs
	SystemID, AccountID       string
	// Remotes make the server a leaf. The nodes of its region connect to it with the
	// credentials that the origin gave them, which it judges by the account's JWT; the
	// remote of the system account is how a new one, with the nodes revoked since, comes
	// to it.
	Remotes                []remote
	MaxPayload, MaxPending int
}

// remote is a connection of a leaf to the origin's server, in one account. CA is the file of
// who signs that one's certificate; "": whom the leaf's system trusts.
type remote struct{ URL, Account, Credentials, CA string }

const confForm = `# Made by edge origin. {{.By}} includes it.
{{- with .Name}}
server_name: {{printf "%q" .}}
{{- end}}
operator: {{.Operator}}
system_account: {{.SystemID}}
resolver: { type: full, dir: "./jwt" }
resolver_preload: {
	{{.SystemID}}: {{.System}}
	{{.AccountID}}: {{.Account}}
}
{{- with .Remotes}}
leafnodes: {
	reconnect: "1s"
	remotes: [
		{{- range .}}
		{ urls: [{{printf "%q" .URL}}], account: {{.Account}}, credentials: {{printf "%q" .Credentials}}{{with .CA}}, tls: { ca_file: {{printf "%q" .}} }{{end}} }
		{{- end}}
	]
}
{{- end}}
max_payload: {{.MaxPayload}}
max_pending: {{.MaxPending}}
ping_interval: "20s"
write_deadline: "10s"
`

// newConf signs what a conf holds of accounts.
func (a *Authority) newConf(by string, revoked map[string]time.Time) (c conf, err error) {
	c = conf{By: by, SystemID: a.SystemID, AccountID: a.AccountID, MaxPayload: wire.MaxPayload, MaxPending: MaxPending}
	if c.Operator, err = a.signOperator(); err != nil {
		return c, err
	}
	if _, c.Account, err = a.SignAccount(revoked); err != nil {
		return c, err
	}
	_, c.System, err = a.SignSystem(revoked)
	return c, err
}

func (c conf) text() string {
	var b strings.Builder
	if err := template.Must(template.New("conf").Parse(confForm)).Execute(&b, c); err != nil {
		panic(err) // a form of ours over texts of ours
	}
	return b.String()
}

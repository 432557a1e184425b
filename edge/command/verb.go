package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
)

// operation is one thing that a verb of operators does, such as `key create`.
type operation struct {
	name, args, summary string // args as in a usage line, "ID…"
	flags               func(*operators)
	run                 func(context.Context, *operators) error

	local   bool                  // it never calls the admin API, and takes none of its flags
	offline func(*operators) bool // tells from the flags whether it does not; nil: it does
}

// operators is a call of an operation: its flags, and the admin API.
type operators struct {
	*flags
	out    io.Writer
	admin  *adminClient
	json   bool
	values map[string]*string // flags that are text
	args   []string
}

// text adds a flag that is text.
func (o *operators) text(name, value, usage string) { o.values[name] = o.String(name, value, usage) }

func (o *operators) value(name string) string { return *o.values[name] }

// runOperations makes the verb of a group of operations.
func runOperations(group string, all []operation) func(context.Context, []string, io.Writer, io.Writer) error {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
		list := fmt.Sprintf("run 'edge %s --help' to see them", group)
		if len(args) == 0 {
			return usagef(list, "%s: no operation given", group)
		}
		if args[0] == "--help" || args[0] == "-h" || args[0] == "help" {
			_, err := io.WriteString(stderr, groupHelp(group, all))
			return err
		}
		for _, op := range all {
			if op.name == args[0] {
				return runOperation(ctx, group, op, args[1:], stdout, stderr)
			}
		}
		return usagef(list, "%s: unknown operation %q", group, args[0])
	}
}

func groupHelp(group string, all []operation) string {
	text := fmt.Sprintf("Usage: edge %s OPERATION [flags]\n\nOperations:\n", group)
	for _, op := range all {
		text += fmt.Sprintf("  %-22s %s\n", strings.TrimSpace(op.name+" "+op.args), op.summary)
	}
	return text + fmt.Sprintf("\nFlags of an operation: edge %s OPERATION --help\n", group)
}

// newOperators are the flags of an operation.
func newOperators(group string, op operation, stderr io.Writer) (o *operators, tokenFile, data, address *string) {
	name := group + " " + op.name
	o = &operators{
		flags:  newFlags(name, strings.Join(strings.Fields("edge "+name+" "+op.args+" [flags]"), " "), stderr),
		values: map[string]*string{},
	}
	tokenFile, data, address = new(string), new(string), new(string)
	if !op.local {
		o.StringVar(address, "admin", "", "`URL` of the origin's admin API (default $EDGE_ADMIN_URL)")
		o.StringVar(tokenFile, "token-file", "", "`FILE` with an admin token (default $EDGE_ADMIN_TOKEN_FILE)")
		o.StringVar(data, "data", "", "`DIR` of an `edge dev` or `edge origin` that runs here, in place of --admin and --token-file")
	}
	o.BoolVar(&o.json, "json", false, "print JSON: of the admin API its answer")
	if op.flags != nil {
		op.flags(o)
	}
	return o, tokenFile, data, address
}

func runOperation(ctx context.Context, group string, op operation, args []string, stdout, stderr io.Writer) error {
	o, tokenFile, data, address := newOperators(group, op, stderr)
	o.out = stdout
	want := len(strings.Fields(op.args))
	for len(o.args) < want { // before flags, between or after them
		if o.Parse(args) != nil || o.NArg() == 0 {
			break // parse, below, says what is wrong
		}
		o.args, args = append(o.args, o.Arg(0)), o.Args()[1:]
	}
	if err := o.parse(args); err != nil {
		return err
	}
	if len(o.args) < want {
		return usagef(o.hint(), "%s: %s is missing", o.Name(), strings.Fields(op.args)[len(o.args)])
	}
	if !op.local && (op.offline == nil || !op.offline(o)) {
		var err error
		if o.admin, err = findAdmin(*data, *address, *tokenFile); err != nil {
			return err
		}
	}
	return adminHint(op.run(ctx, o))
}

// findAdmin reads where the admin API is and the token for it.
func findAdmin(data, address, tokenFile string) (*adminClient, error) {
	if data != "" {
		return findLocal(data)
	}
	if address == "" {
		address = os.Getenv("EDGE_ADMIN_URL")
	}
	if tokenFile == "" {
		tokenFile = os.Getenv("EDGE_ADMIN_TOKEN_FILE")
	}
	const how = "give --admin URL and --token-file FILE, or EDGE_ADMIN_URL and EDGE_ADMIN_TOKEN_FILE, or --data DIR of an edge dev"
	if address == "" || tokenFile == "" {
		return nil, usagef(how, "it is not said where the admin API is, or with which token")
	}
	if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef(how, "%q is no address such as http://127.0.0.1:8090", address)
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, hint(fmt.Errorf("reading the admin token: %w", err), "the origin keeps one in DIR/admin.token; edge token create makes more")
	}
	return newAdminClient(strings.TrimSuffix(address, "/"), strings.TrimSpace(string(token))), nil
}

// findLocal reads what an edge dev, or an edge origin, says of itself.
func findLocal(dir string) (*adminClient, error) {
	var dev devReady
	err := readJSON(filepath.Join(dir, "dev.json"), &dev)
	if err == nil {
		return newAdminClient(dev.Origin.AdminURL, dev.Origin.AdminToken), nil
	}
	var origin originReady
	if errors.Is(err, os.ErrNotExist) {
		err = readJSON(filepath.Join(dir, "origin.json"), &origin)
	}
	if err != nil {
		return nil, hint(fmt.Errorf("finding the origin: %w", err), "is edge dev, or edge origin, running over %s?", dir)
	}
	token, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	if err != nil {
		return nil, hint(fmt.Errorf("reading the admin token: %w", err), "an origin with --admin-token-file needs --admin and --token-file here")
	}
	return newAdminClient(origin.AdminURL, strings.TrimSpace(string(token))), nil
}

// adminHint says what to do about the admin API's refusals.
func adminHint(err error) error {
	refused, ok := errors.AsType[*adminError](err)
	if !ok {
		if _, usage := errors.AsType[*usageError](err); !usage && err != nil && strings.HasPrefix(err.Error(), "admin API: ") {
			return hint(err, "is the origin running, and is this its address?")
		}
		return err
	}
	var problem struct{ Error, Reason, Detail string }
	_ = json.Unmarshal([]byte(refused.body), &problem) // what is no problem is shown as it is
	said := problem.Detail
	if said == "" {
		said = strings.ReplaceAll(strings.TrimSpace(problem.Error+" "+problem.Reason), "_", " ")
	}
	if said == "" {
		said = fmt.Sprintf("status %d", refused.status)
	}
	told := fmt.Errorf("the origin refused: %s", said)
	switch refused.status {
	case http.StatusUnauthorized:
		return hint(told, "the token is wrong or revoked: check the token file")
	case http.StatusForbidden:
		return hint(told, "ask an admin for a token of that role (edge token create --role ROLE)")
	case http.StatusNotFound:
		return hint(told, "list what there is: edge account list, edge key list ACCOUNT, edge token list, edge release list")
	case http.StatusConflict:
		return hint(told, "look at its state first; it may have been changed by somebody else")
	}
	return hint(told, "run the command with --help to see what it takes")
}

// print shows v as JSON, or by text.
func (o *operators) print(v json.RawMessage, text func(io.Writer) error) error {
	if o.json {
		_, err := fmt.Fprintf(o.out, "%s\n", strings.TrimSpace(string(v)))
		return err
	}
	table := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	if err := text(table); err != nil {
		return err
	}
	return table.Flush()
}

// say prints a line or, as JSON, what is in it.
func (o *operators) say(v map[string]any, line string) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.print(raw, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, line)
		return err
	})
}

// one calls the admin API and shows the record that it answers with, by the
// columns' names.
func (o *operators) one(ctx context.Context, method, path string, in any, columns ...string) error {
	var raw json.RawMessage
	if err := o.admin.call(ctx, method, path, in, &raw); err != nil {
		return err
	}
	var record map[string]any
	if err := json.Unmarshal(raw, &record); err != nil {
		return err
	}
	return o.print(raw, func(w io.Writer) error {
		for _, c := range columns {
			if _, err := fmt.Fprintf(w, "%s\t%s\n", c, cell(record, c)); err != nil {
				return err
			}
		}
		return nil
	})
}

// all reads every page of a list and shows it as a table; as JSON, an array.
func (o *operators) all(ctx context.Context, path string, columns ...string) error {
	return o.list(ctx, path, url.Values{}, 0, columns...)
}

// list is all of what the query picks, up to most records; 0: every one.
func (o *operators) list(ctx context.Context, path string, query url.Values, most int, columns ...string) error {
	records := []map[string]any{}
	for more := true; more; {
		var page struct {
			Items []map[string]any `json:"items"`
			Next  string           `json:"next_cursor"`
		}
		query.Set("limit", "200")
		if most > 0 {
			query.Set("limit", strconv.Itoa(min(200, most-len(records))))
		}
		if err := o.admin.call(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		records = append(records, page.Items...)
		query.Set("cursor", page.Next)
		more = page.Next != "" && (most == 0 || len(records) < most)
	}
	raw, err := json.Marshal(records)
	if err != nil {
		return err
	}
	return o.print(raw, func(w io.Writer) error {
		fmt.Fprintln(w, strings.ToUpper(strings.Join(columns, "\t")))
		for _, r := range records {
			cells := make([]string, len(columns))
			for i, c := range columns {
				cells[i] = cell(r, c)
			}
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
		return nil
	})
}

// cell is a field of a record as text; "agent.email" is one of a record in it.
func cell(record map[string]any, name string) string {
	outer, inner, nested := strings.Cut(name, ".")
	switch v := record[outer].(type) {
	case nil:
		return "-"
	case map[string]any:
		if nested {
			return cell(v, inner)
		}
	case []any:
		var words []string
		for _, one := range v {
			words = append(words, fmt.Sprint(one))
		}
		if len(words) == 0 {
			return "any"
		}
		return strings.Join(words, ",")
	case string:
		if v == "" {
			return "-"
		}
		return v
	case float64: // sizes in bytes are long
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(record[outer])
}

// secret shows what can be shown once: alone on standard output, so that a
// script can take it, with the rest on standard error.
func (o *operators) secret(ctx context.Context, path string, in any, record string) error {
	var raw json.RawMessage
	if err := o.admin.call(ctx, http.MethodPost, path, in, &raw); err != nil {
		return err
	}
	if o.json {
		return o.print(raw, nil)
	}
	var made map[string]any
	if err := json.Unmarshal(raw, &made); err != nil {
		return err
	}
	shown, _ := made[record].(map[string]any)
	if _, err := fmt.Fprintln(o.out, made["plaintext"]); err != nil {
		return err
	}
	_, err := fmt.Fprintf(o.stderr, "%s %s made. Keep what is printed: it is not shown again.\n", record, cell(shown, "id"))
	return err
}

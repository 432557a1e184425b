package openapi

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// sample is a whole program that calls one operation. It takes the node's address
// from EDGE_URL, keys from LIVE and TEST, and a path's parameters from the variables that
// variableOf names. Run is the command that runs it; its last word is the file to save it
// in.
type sample struct{ Language, Run, Text string }

// call describes the request that a sample makes.
type call struct {
	method, path, query, key, body string

	once bool // with an Idempotency-Key, so that it can be sent again
}

var parameter = regexp.MustCompile(`\{([^}]*)\}`)

// variable is an environment variable that an operation's samples take a parameter of
// the path from.
type variable struct{ Name, Parameter string }

// variables returns those of an operation's samples.
func variables(path string) (all []variable) {
	for _, m := range parameter.FindAllStringSubmatch(path, -1) {
		all = append(all, variable{variableOf(m[1]), m[1]})
	}
	return all
}

// samples returns the programs for an operation: the first example is what they send.
// What only reads uses the live key, all else the test key.
func samples(s *specification, o operation, op object) []sample {
	c := call{method: o.Method, path: o.Path, key: "TEST"}
	if c.method == "GET" {
		c.key = "LIVE"
	}
	if o.Body != nil && len(o.Body.Examples) > 0 {
		c.body = o.Body.Examples[0].JSON
	}
	query := url.Values{}
	for _, p := range op.list("parameters") {
		q := s.resolve(p)
		if q.text("in") == "header" && q.text("name") == "Idempotency-Key" {
			c.once = true
		}
		if q.text("in") == "query" && q.get("example") != nil && q.object("schema").text("type") == "integer" {
			query.Set(q.text("name"), fmt.Sprint(q.get("example")))
		}
	}
	if len(query) > 0 {
		c.query = "?" + query.Encode()
	}
	return []sample{
		{"curl", "sh sample.sh", c.curl()},
		{"Node", "node sample.mjs", c.node()},
		{"Python", "python3 sample.py", c.python()},
		{"Go", "go run main.go", c.golang()},
	}
}

// variableOf returns the environment variable that a sample takes a path's parameter
// from. Names that mean something to the samples or to a shell get a prefix.
func variableOf(parameter string) string {
	name := strings.ToUpper(parameter)
	switch name {
	case "EDGE_URL", "NODE", "LIVE", "TEST", "PATH", "HOME", "USER", "SHELL", "PWD", "IFS", "LANG", "TERM", "TMPDIR", "UID", "ENV", "PS1":
		return "PARAM_" + name
	}
	return name
}

// target returns the path and the query with each parameter as write has it.
func (c call) target(write func(variable string) string) string {
	return parameter.ReplaceAllStringFunc(c.path, func(m string) string {
		return write(variableOf(strings.Trim(m, "{}")))
	}) + c.query
}

// sameAgain is the comment of samples on the Idempotency-Key that they make.
const sameAgain = "the same when you send it again"

func (c call) curl() string {
	var b strings.Builder
	if c.once {
		b.WriteString("once=$(openssl rand -hex 16) # " + sameAgain + "\n")
	}
	b.WriteString("curl ")
	if c.method != "GET" && c.body == "" {
		b.WriteString("-X " + c.method + " ")
	}
	fmt.Fprintf(&b, "\"$EDGE_URL%s\" \\\n  -H \"Authorization: Bearer $%s\"", c.target(func(v string) string { return "$" + v }), c.key)
	if c.once {
		b.WriteString(" \\\n  -H \"Idempotency-Key: $once\"")
	}
	if c.body != "" {
		fmt.Fprintf(&b, " \\\n  -H \"Content-Type: application/json\" \\\n  -d '%s'", strings.ReplaceAll(c.body, "'", `'\''`))
	}
	return b.String() + "\n"
}

func (c call) node() string {
	names := []string{"EDGE_URL", c.key}
	target := c.target(func(v string) string {
		names = append(names, v)
		return "${" + v + "}"
	})
	var b strings.Builder
	fmt.Fprintf(&b, "const { %s } = process.env;\n", strings.Join(names, ", "))
	if c.once {
		b.WriteString("const once = crypto.randomUUID(); // " + sameAgain + "\n")
	}
	fmt.Fprintf(&b, "const answer = await fetch(`${EDGE_URL}%s`, {\n", target)
	if c.method != "GET" {
		fmt.Fprintf(&b, "  method: %q,\n", c.method)
	}
	headers := fmt.Sprintf("Authorization: `Bearer ${%s}`", c.key)
	if c.body != "" {
		headers += `, "Content-Type": "application/json"`
	}
	if c.once {
		headers += `, "Idempotency-Key": once`
	}
	fmt.Fprintf(&b, "  headers: { %s },\n  signal: AbortSignal.timeout(30_000),\n", headers)
	if c.body != "" {
		fmt.Fprintf(&b, "  body: JSON.stringify(%s),\n", indent(c.body, "  "))
	}
	return b.String() + "});\nconsole.log(answer.status, await answer.json());\n"
}

func (c call) python() string {
	var b strings.Builder
	if c.once {
		b.WriteString("import json, os, urllib.request, uuid\n\nonce = str(uuid.uuid4())  # " + sameAgain + "\n")
	} else {
		b.WriteString("import json, os, urllib.request\n\n")
	}
	b.WriteString("env = os.environ\nrequest = urllib.request.Request(\n")
	target := c.target(func(v string) string { return `" + env["` + v + `"] + "` })
	fmt.Fprintf(&b, "    env[\"EDGE_URL\"] + %s,\n", strings.TrimSuffix(fmt.Sprintf("\"%s\"", target), ` + ""`))
	if c.method != "GET" {
		fmt.Fprintf(&b, "    method=%q,\n", c.method)
	}
	headers := fmt.Sprintf(`"Authorization": "Bearer " + env[%q]`, c.key)
	if c.body != "" {
		headers += `, "Content-Type": "application/json"`
	}
	if c.once {
		headers += `, "Idempotency-Key": once`
	}
	fmt.Fprintf(&b, "    headers={%s},\n", headers)
	if c.body != "" {
		fmt.Fprintf(&b, "    data=\"\"\"%s\"\"\".encode(),\n", strings.ReplaceAll(c.body, `\`, `\\`))
	}
	return b.String() + ")\nwith urllib.request.urlopen(request, timeout=30) as answer:\n    print(answer.status, json.load(answer))\n"
}

func (c call) golang() string {
	target := c.target(func(v string) string { return `" + os.Getenv("` + v + `") + "` })
	target = strings.TrimSuffix(`"`+target+`"`, ` + ""`)
	body, imports, header := "nil", "\t\"time\"\n", ""
	if c.body != "" {
		body = "strings.NewReader(`" + strings.ReplaceAll(c.body, "`", "` + \"`\" + `") + "`)"
		imports = "\t\"strings\"\n\t\"time\"\n"
		header = "\treq.Header.Set(\"Content-Type\", \"application/json\")\n"
	}
	random := ""
	if c.once {
		random = "\t\"crypto/rand\"\n"
		header += "\treq.Header.Set(\"Idempotency-Key\", rand.Text()) // " + sameAgain + "\n"
	}
	return fmt.Sprintf(`package main

import (
%s	"fmt"
	"io"
	"log"
	"net/http"
	"os"
%s)

func main() {
	req, err := http.NewRequest(%q, os.Getenv("EDGE_URL")+%s, %s)
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv(%q))
%s	client := http.Client{Timeout: 30 * time.Second}
	answer, err := client.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.StatusCode, string(body))
}
`, random, imports, c.method, target, body, c.key, header)
}

// indent begins each line but the first with prefix.
func indent(text, prefix string) string {
	return strings.ReplaceAll(text, "\n", "\n"+prefix)
}

package authoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/wasm"
	"partneredge/wasm/contract/pattern"
	"partneredge/wasm/fake"
)

// TestCases: each case is one that a module which greets passes, or one with the
// problem that its author must be told.
func TestCases(t *testing.T) {
	p := started(t, wasm.Go)
	replace(t, p, "main.go", `resp.Body = append(resp.Body, '}')`, `resp.Body = append(append(resp.Body, ",\"now\":\""...), '0'+byte(req.Now/1e6%10), '"', '}')`)
	for _, tt := range []struct{ name, steps, problem string }{
		{"patterns and captures", `{"path":"hello/ana","status":200,"want":{"hello":"<who=string>","now":"<any>"}},{"path":"hello/$(who)","status":200,"want":{"hello":"$(who)","now":"<any>"}}`, ""},
		{"the clock stands still", `{"path":"hello/a","times":3,"status":200,"want":{"hello":"a","now":"0"}}`, ""},
		{"and is moved", `{"path":"hello/a","after":"3s","status":200,"want":{"hello":"a","now":"3"}}`, ""},
		{"a path from the root", `{"path":"/api/v2/public/hello/a","status":200}`, ""},
		{"no key", `{"path":"hello/a","key":"none","status":401,"want":{"error":"unauthorized","reason":"missing_bearer_token"}}`, ""},
		{"one scope", `{"path":"hello/a","key":"only x:hello","status":200},{"path":"agents/me","key":"only x:hello","status":403}`, ""},
		{"the test key", `{"path":"hello/a","key":"test","status":200,"want_headers":{"X-Svc-Environment":"test"}}`, ""},
		{"a header of the request", `{"path":"hello/a","key":"none","headers":{"Authorization":"Bearer x"},"status":401,"want":{"error":"unauthorized","reason":"malformed_api_key"}}`, ""},
		{"another status", `{"path":"hello/a","status":201}`, "status 200, want 201"},
		{"another body", `{"path":"hello/a","status":200,"want":{"hello":"b","now":"<any>"}}`, `.hello is "a", want "b"`},
		{"another header", `{"path":"hello/a","status":200,"want_headers":{"Allow":"GET"}}`, "header Allow"},
		{"a key that is none", `{"path":"hello/a","key":"admin","status":200}`, `key "admin" is none of`},
		{"a scope that is none", `{"path":"hello/a","key":"only x:bye","status":200}`, `there is no scope "x:bye"`},
		{"nothing captured", `{"path":"hello/$(nobody)","status":200}`, "nothing was captured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := `{"cases":[{"name":"c","steps":[` + tt.steps + `]}]}`
			if err := os.WriteFile(filepath.Join(p.Dir, casesFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			report, err := p.Test(t.Context(), config(t))
			if err != nil {
				t.Fatal(err)
			}
			problems := strings.Join(report.Cases[0].Problems, "\n")
			if report.OK != (tt.problem == "") || !strings.Contains(problems, tt.problem) {
				t.Errorf("%q, want %q", problems, tt.problem)
			}
		})
	}
}

// TestFilesThatMakeNoSense: what an author mistypes is said, with the line.
func TestFilesThatMakeNoSense(t *testing.T) {
	for _, tt := range []struct{ file, old, new, want string }{
		{"manifest.json", `"headers"`, `"header"`, `line 7: json: unknown field "header"`},
		{"manifest.json", `"name": "hello"`, `"name": "Hello"`, "no name for a module"},
		{"manifest.json", `[]`, `[`, "line 6: invalid character"},
		{"cases.json", `"status": 200`, `"state": 200`, `unknown field "state"`},
		{"cases.json", `"status": 200`, `"status": 2`, "needs a path, and a status"},
		{"cases.json", `"a key without the scope is refused"`, `"greets by name"`, "two cases are named"},
		{"cases.json", `"name": "greets by name"`, `"name": ""`, "has no name"},
	} {
		t.Run(tt.file+" "+tt.new, func(t *testing.T) {
			p := started(t, wasm.Go)
			replace(t, p, tt.file, tt.old, tt.new)
			_, err := Open(p.Dir)
			if err == nil {
				_, err = p.readCases()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.file) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestLineOfMistake: what is mistyped is found on its own line, whatever is wrong with it.
func TestLineOfMistake(t *testing.T) {
	const good = `{
  "upstreams": [{"address": "a:1", "answers": {"state": {"body": {"state": 1}}}}],
  "cases": [
    {
      "name": "state",
      "steps": [
        {"path": "hello/a", "status": 200,
         "headers": {"state": "1"}},
        {"path": "hello/b",
         "after": "1s",
         "status": 200}
      ]
    }
  ]
}
`
	for _, tt := range []struct{ old, new, want string }{
		{`"after": "1s"`, `"after": "1s"`, ""},
		{`"after": "1s",`, `"after": "1s"`, "line 11: invalid character"},
		{`"after": "1s",`, `"after": "1s`, "line 10: invalid character '\\n' in string literal"},
		{`"after": "1s"`, `"after": 1`, "line 10: json: cannot unmarshal number"},
		{`"after": "1s"`, `"after": "1"`, "line 10: time: missing unit"},
		{`"after": "1s"`, `"state": "1s"`, `line 10: json: unknown field "state"`},
		{`"after": "1s"`, `"state": ["1s",` + "\n\n" + `{}]`, `line 10: json: unknown field "state"`},
		{`"after": "1s"`, `"headers": [` + "\n" + `]`, "line 10: json: cannot unmarshal array"},
		{`"path": "hello/b"`, `"state": "1s", "after": 1`, `line 9: json: unknown field "state"`},
		{`"path": "hello/b"`, `"times": "2", "state": 1`, "line 9: json: cannot unmarshal string"},
		{`{"state": 1}`, `{"state": 1e400}`, ""},
		{`"body": {"state": 1}`, `"body": 1e400, "state": 1`, `line 2: json: unknown field "state"`},
		{`"path": "hello/b"`, `"body": [1e400],` + "\n" + `"state": "1s"`, `line 10: json: unknown field "state"`},
		{`"status": 200}` + "\n      ]", `"status": 1e400}` + "\n      ]", "line 11: json: cannot unmarshal number"},
		{"  ]\n}\n", "  ]\n\n", "line 14: unexpected end"},
		{"  ]\n}\n", "  ]\n}\n\n{}", "line 17: invalid character '{' after top-level value"},
		{good, "", "line 1: unexpected end"},
		{good, "[\n]", "line 1: json: cannot unmarshal array"},
		{good, "\n1", "line 2: json: cannot unmarshal number"},
	} {
		if strings.Count(good, tt.old) != 1 {
			t.Fatalf("%q is there %d times", tt.old, strings.Count(good, tt.old))
		}
		got := ""
		if err := parse([]byte(strings.Replace(good, tt.old, tt.new, 1)), new(Cases)); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%q in place of %q: %q, want %q", tt.new, tt.old, got, tt.want)
		}
	}
}

// FuzzCases: no file makes the reading of cases, or of what is in them, panic.
func FuzzCases(f *testing.F) {
	for _, path := range []string{"../../wasm/examples/rates/cases.json", "../../wasm/examples/quotes-rust/cases.json"} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"cases":[{"name":"a","steps":[{"path":"$(a)","body":"x","status":200,"after":"-1s"}]}]}`))
	f.Add([]byte(`{"cases":[{"name":"a","steps":[{"path":"a","body":1e400,"state":200}]}]}`))
	f.Add([]byte(`{"cases":[{"name":"a","steps":[{"path":"a","body": null ,"status":200}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c Cases
		if parse(text, &c) != nil || c.check() != nil {
			return
		}
		for _, one := range c.Cases {
			for _, s := range one.Steps {
				if s.After < 0 {
					t.Errorf("after %d", s.After)
				}
				body := bodyText(s.Body)
				if s.Body != nil && !json.Valid(s.Body) {
					t.Errorf("%q of a body that is no JSON", body)
				}
				if body == "" && s.Body != nil && string(s.Body) != `""` {
					t.Errorf("no body in the place of %s", s.Body)
				}
			}
		}
	})
}

// TestBodyText: JSON is sent as it is, and a string as its text.
func TestBodyText(t *testing.T) {
	for body, want := range map[string]string{
		``: ``, `""`: ``, `"{"`: `{`, ` "a\n" `: "a\n", `"null"`: `null`,
		`null`: `null`, " null\n": `null`, `true`: `true`, `1e400`: `1e400`, ` {"a": "b"} `: `{"a": "b"}`,
	} {
		if got := bodyText(json.RawMessage(body)); got != want {
			t.Errorf("%q is sent as %q, want %q", body, got, want)
		}
	}
}

// TestHostOfCase: the host that a case names is where a server has it, and nowhere else.
func TestHostOfCase(t *testing.T) {
	for name, want := range map[string]string{"Host": "a.example", "host": "a.example", "X-Host": "partner.example"} {
		clock := new(fake.Clock)
		req, err := newSession(fake.New(clock.Now), clock, nil).request(Step{Path: "hello/a", Headers: map[string]string{name: "a.example"}})
		if err != nil {
			t.Fatal(err)
		}
		if own := req.Header.Get("Host"); req.Host != want || own != "" {
			t.Errorf("header %s: the host %q, and the header %q; want %q and none", name, req.Host, own, want)
		}
	}
}

// TestBodiesAreUTF8: a body with bytes that are none is refused, though decoding makes
// U+FFFD of them, as the case wants.
func TestBodiesAreUTF8(t *testing.T) {
	for body, want := range map[string]int{"{\"hello\":\"\ufffd\"}": 0, "{\"hello\":\"\xff\"}": 1} {
		if problems := matchBody(&pattern.Matcher{Captured: map[string]string{}, Fill: func(text string) string { return text }}, []byte(`{"hello":"\ufffd"}`), []byte(body)); len(problems) != want {
			t.Errorf("%q: %q", body, problems)
		}
	}
}

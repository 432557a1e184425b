package authoring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/wasm"
)

// TestFindings changes a module that is good in one place, and wants the one finding
// that says so.
func TestFindings(t *testing.T) {
	const handler = "\tresp.Status = 200\n"
	for _, tt := range []struct {
		name, file, old, new string
		level                Level
		rule, text           string
	}{
		{"capability that is none", "manifest.json", `"capabilities": []`, `"capabilities": ["veiws"]`, Refused, "release", `there is no capability "veiws"`},
		{"capability of the gate", "manifest.json", `"capabilities": []`, `"capabilities": ["keys"]`, Refused, "release", "the capability keys, which is gate's alone"},
		{"capability that nothing uses", "manifest.json", `"capabilities": []`, `"capabilities": ["views"]`, Warning, "grants", "views is granted, and no case"},
		{"server that nothing asks", "manifest.json", `"headers": []`, `"headers": [], "allow_dial": ["rates.example:443"]`, Warning, "grants", "allow_dial has rates.example:443"},
		{"server that is none", "manifest.json", `"headers": []`, `"headers": [], "allow_dial": ["rates.example"]`, Refused, "release", "allow_dial"},
		{"server in a private network", "manifest.json", `"headers": []`, `"headers": [], "allow_dial": ["10.0.0.5:8080"]`, Refused, "release", "allow_dial has 10.0.0.5:8080, which nodes refuse"},
		{"header in upper case", "manifest.json", `"headers": []`, `"headers": ["Accept"]`, Refused, "release", "lower case"},
		{"the key itself", "manifest.json", `"headers": []`, `"headers": ["authorization"]`, Refused, "release", "keys are for gate alone"},
		{"route of the contract", "manifest.json", `hello/{who}", "scope"`, `agents/me", "scope"`, Refused, "release", "agents/me"},
		{"scope that nobody can have", "manifest.json", `"x:hello"`, `"hello"`, Refused, "release", "scope"},
		{"description of another route", "openapi.json", `hello/{who}`, `other/{who}`, Refused, "release", "none of the module's routes"},
		{"description that nests", "openapi.json", `"paths"`, `"components": {"examples": {"A": {"value": ` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}}}, "paths"`, Refused, "release", "deep in each other"},
		{"manifest that is too large", "openapi.json", `"paths"`, `"components": {"examples": {"A": {"value": "` + strings.Repeat("x", 1<<20) + `"}}}, "paths"`, Refused, "release", "the manifest of module hello has"},
		{"no warm-up", "manifest.json", `"method": "GET", "path": "/api/v2/public/hello/ana"`, `"method": "PUT", "path": "/api/v2/public/hello/ana"`, Warning, "warm-up", "method GET"},
		{"warm-up that traps", "main.go", handler, "\tif req.Principal.KeyID == \"key_warm\" {\n\t\tpanic(\"cold\")\n\t}\n" + handler, Refused, "warm-up", "it logged: panic: cold; "},
		{"no handler", "main.go", "func init() { guest.Handle(handle) }\n\nfunc main() {}", "func main() { guest.Handle(handle) }", Refused, "warm-up", "no handler: call guest.Handle in an init function of package main"},
		{"grant that is missing", "main.go", handler, "\t_, _ = guest.Host{}.Profile()\n" + handler, Refused, "grants", "needs the capability views"},
		{"calls that trap", "main.go", handler, "\tif req.Principal.KeyID != \"key_warm\" {\n\t\tpanic(\"hot\")\n\t}\n" + handler, Refused, "calls", "calls failed"},
		{"import that no host has", "main.go", "func main() {}", "//go:wasmimport env abort\nfunc abort()\n\nfunc main() { abort() }", Refused, "imports", "env.abort"},
		{"SDK of another program", "sdk/answer/answer.go", "\npackage answer\n", "\npackage answer // as it was\n", Warning, "sdk", "another folder: sdk/answer/answer.go"},
		{"case that fails", "cases.json", `"hello": "ana"`, `"hello": "bo"`, Warning, "cases", "greets by name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := started(t, wasm.Go)
			replace(t, p, tt.file, tt.old, tt.new)
			report, err := opened(t, p.Dir).Check(t.Context(), config(t))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, f := range report.Findings {
				found = found || f.Level == tt.level && f.Rule == tt.rule && strings.Contains(f.Text, tt.text)
			}
			if !found || report.OK != (tt.level != Refused) {
				t.Errorf("%+v, want %s of %s: %s", report, tt.level, tt.rule, tt.text)
			}
		})
	}
}

// TestMeasuredState: the first call that succeeded is measured as its own case leaves the
// module's surroundings, and not at all where it is answered otherwise then.
func TestMeasuredState(t *testing.T) {
	const handler = "\tresp.Status = 200\n"
	for _, tt := range []struct {
		name, code, capability, cases string
		measured                      bool
	}{
		{"another case's outage", `
			if _, err := (guest.Host{}).Profile(); err != nil {
				panic(err)
			}`, "views", `{"cases": [
			{"name": "first", "steps": [{"path": "hello/ana", "status": 200}]},
			{"name": "outage", "setup": [{"do": "outage", "on": true}], "steps": [{"path": "hello/ana", "key": "none", "status": 401}]}]}`, true},
		{"what can be done once", `
			if req.Param("who") == "subscribe" {
				_, _ = guest.Host{}.Subscribe(&abi.Subscription{ID: "whs_1", Target: "https://1.1.1.1/", Secret: "s", Events: []string{"sentinel.fired"}})
				resp.Status = 404
			} else if already, _ := (guest.Host{}).Revoke("whs_1"); already {
				resp.Status = 409
			}`, "subscriptions", `{"cases": [
			{"name": "first", "steps": [{"path": "hello/subscribe", "status": 404}, {"path": "hello/ana", "status": 200}]}]}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := started(t, wasm.Go)
			replace(t, p, "main.go", handler, handler+tt.code+"\n")
			replace(t, p, "manifest.json", `"capabilities": []`, `"capabilities": ["`+tt.capability+`"]`)
			if err := os.WriteFile(filepath.Join(p.Dir, casesFile), []byte(tt.cases), 0o600); err != nil {
				t.Fatal(err)
			}
			report, err := opened(t, p.Dir).Check(t.Context(), config(t))
			if err != nil || !report.OK || len(report.Findings) != 0 || report.CallUS > 0 != tt.measured {
				t.Errorf("%+v, %v; want a measurement: %v", report, err, tt.measured)
			}
		})
	}
}

// Without cases the check says that it cannot know what the module uses.
func TestCheckWithoutCases(t *testing.T) {
	p := started(t, wasm.Go)
	if err := os.Remove(filepath.Join(p.Dir, casesFile)); err != nil {
		t.Fatal(err)
	}
	report, err := p.Check(t.Context(), config(t))
	if err != nil || !report.OK || len(report.Findings) != 1 || report.Findings[0].Rule != "cases" {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := p.Test(t.Context(), config(t)); err == nil {
		t.Error("a module without cases passed them")
	}
}

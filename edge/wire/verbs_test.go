package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEveryVerbHasASender: a verb that nodes publish and NodeVerbs lacks does not come
// through the NATS server of a region.
func TestEveryVerbHasASender(t *testing.T) {
	unlisted := verbConstants(t)
	ofOrigin := []string{VerbShare, VerbRelease} // which have no reply
	for _, verb := range slices.Concat(NodeVerbs(), ofOrigin) {
		if _, ok := unlisted[verb]; !ok {
			t.Errorf("%q is listed twice, or is no verb", verb)
		}
		delete(unlisted, verb)
	}
	for _, name := range slices.Sorted(maps.Values(unlisted)) {
		t.Errorf("%s: if nodes publish it, also as a reply, add it to NodeVerbs; if only the origin does, add it here", name)
	}
}

// verbConstants returns the names of the package's constants Verb…, by value.
func verbConstants(t *testing.T) map[string]string {
	t.Helper()
	verbs := make(map[string]string)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Verb") {
				return true
			}
			name := spec.Names[0].Name
			if len(spec.Values) != 1 {
				t.Fatalf("%s has no value of its own", name)
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s is no literal", name)
			}
			verb, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			verbs[verb] = name
			return true
		})
	}
	if len(verbs) == 0 {
		t.Fatal("no constant Verb… was found")
	}
	return verbs
}

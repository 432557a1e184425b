package host

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestReasonsAreAll holds that the list has every constant.
func TestReasonsAreAll(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Reason" {
				declared += len(spec.Names)
			}
		}
		return true
	})
	listed := map[Reason]bool{}
	for _, r := range Reasons() {
		listed[r] = true
	}
	if len(listed) != declared || declared < 10 {
		t.Errorf("%d listed, %d declared", len(listed), declared)
	}
}

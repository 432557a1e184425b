// Command mutants measures what the tests notice: it changes one thing of the code
// at a time and runs the tests of it. A change that no test fails for survives.
//
// The tree is left as it is: `go test -overlay` compiles each mutant. targets.txt
// says what is changed and which packages test it. equivalent.txt has mutants that
// do the same as the code, each with the reason; they are not tested.
//
// It prints each survivor as file:line: function: before => after, and at the end
// how many were killed and how many survived. -match plants those again that a new
// test is to kill; what follows -- goes to `go test`, such as -run with its name.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

var (
	//go:embed targets.txt
	targets string
	//go:embed equivalent.txt
	equivalent string
)

func main() {
	only := flag.String("targets", "", "targets to test, by comma; empty: all")
	sample := flag.Int("sample", 40, "mutants of each target, drawn at random; 0: all")
	seed := flag.Uint64("seed", 1, "seed of the sample")
	match := flag.String("match", "", "regular expression of the mutants to test, as they are printed")
	flag.Parse()
	matching, err := regexp.Compile(*match)
	if err != nil {
		log.Fatalf("mutants: -match: %v", err)
	}
	total := map[string]int{}
	for line := range strings.Lines(targets) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || strings.HasPrefix(line, "#") || *only != "" && !slices.Contains(strings.Split(*only, ","), name) {
			continue
		}
		files, tests, _ := strings.Cut(rest, " | ")
		count, err := run(strings.Fields(files), append(strings.Fields(tests), flag.Args()...), *sample, *seed, matching)
		if err != nil {
			log.Fatalf("mutants: %s: %v", name, err)
		}
		fmt.Printf("%s: %d killed, %d survived, %d equivalent, %d not valid\n", name, count["killed"], count["survived"], count["equivalent"], count["invalid"])
		for outcome, n := range count {
			total[outcome] += n
		}
	}
	fmt.Printf("figure mutants.killed %d mutants\nfigure mutants.survived %d mutants\n", total["killed"], total["survived"])
}

// run tests the mutants of files and counts them by outcome.
func run(files, tests []string, sample int, seed uint64, matching *regexp.Regexp) (map[string]int, error) {
	all, err := list(files)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !matching.MatchString(m.String()) })
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if sample > 0 {
		all = all[:min(len(all), sample)]
	}
	drawn := len(all)
	all = slices.DeleteFunc(all, mutant.isEquivalent) // now, so that to name one changes no sample
	count := map[string]int{"equivalent": drawn - len(all)}
	if len(all) == 0 {
		return count, nil
	}
	began := time.Now()
	if out, err := goTest(tests, 10*time.Minute, ""); err != nil {
		return nil, fmt.Errorf("the tests fail without a mutant: %w\n%s", err, out)
	}
	limit := 20*time.Second + 5*time.Since(began) // the machine may have other work
	mu, group := sync.Mutex{}, errgroup.Group{}
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, m := range all {
		group.Go(func() error {
			outcome, err := m.test(tests, limit)
			mu.Lock()
			defer mu.Unlock()
			count[outcome]++
			if outcome == "survived" {
				fmt.Println(m)
			}
			return err
		})
	}
	return count, group.Wait()
}

// list returns the mutants of files.
func list(patterns []string) (all []mutant, err error) {
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("list files %s: %d found, %w", pattern, len(files), err)
		}
		for _, file := range slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") }) {
			found, err := mutate(file)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// isEquivalent reports whether the mutant is named as one that does the same as the code.
func (m mutant) isEquivalent() bool {
	line, before := "\n"+m.file+": "+m.function+": ", strings.SplitAfter(m.what, " => ")[0]
	return strings.Contains(equivalent, line+m.what+" # ") || strings.Contains(equivalent, line+before+"* # ")
}

// test runs the tests on a mutant. One that does not compile is invalid, and one
// that never ends is killed.
func (m mutant) test(tests []string, limit time.Duration) (outcome string, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	text, _ := json.Marshal(map[string]any{"Replace": map[string]string{m.file: changed}}) // text alone never fails
	if err := errors.Join(os.WriteFile(changed, m.text, 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		return "", err
	}
	out, err := goTest(tests, limit, overlay)
	if err == nil {
		return "survived", nil
	} else if strings.Contains(out, "[build failed]") {
		return "invalid", nil
	}
	return "killed", nil
}

// goTest runs tests, which are packages and flags. The limit of memory ends a mutant
// that never stops to append.
func goTest(tests []string, limit time.Duration, overlay string) (out string, err error) {
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -d 6000000; exec go test "$@"`, "test",
		"-vet=off", "-failfast", "-count=1", "-timeout=" + limit.String(), "-overlay=" + overlay}, tests...)...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// mutant is one change of a source file.
type mutant struct {
	file, function string
	line           int
	what           string // the line before and after
	text           []byte // the whole file with the change
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", m.file, m.line, m.function, m.what)
}

// swapped has the operator that takes the place of each operator.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
}

var looksLikeError = regexp.MustCompile(`^err|^Err|^\w+\.(Err\w*$|(Errorf|New|Join)\()`)

// pragma begins a setting of SQLite in the address of a database.
var pragma = regexp.MustCompile(`_pragma=`)

// mutator finds the mutants of one file.
type mutator struct {
	mutant // with the file, and the function that is visited
	fset   *token.FileSet
	source []byte
	found  []mutant
}

// mutate returns every mutant of a file.
func mutate(file string) ([]mutant, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m := &mutator{mutant: mutant{file: file}, fset: token.NewFileSet(), source: source}
	parsed, err := parser.ParseFile(m.fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, decl := range parsed.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
			m.function = fn.Name.Name
			ast.Inspect(fn.Body, m.visit)
		}
	}
	return m.found, nil
}

func (m *mutator) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if other, ok := swapped[n.Op]; ok {
			m.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String())
		}
	case *ast.IfStmt:
		m.replace(n.Cond.Pos(), n.Cond.End(), "!("+m.code(n.Cond)+")")
	case *ast.BasicLit:
		if value, err := strconv.ParseInt(n.Value, 0, 64); err == nil && n.Kind == token.INT {
			m.replace(n.Pos(), n.End(), strconv.FormatInt(value+1, 10))
			m.replace(n.Pos(), n.End(), "("+strconv.FormatInt(value-1, 10)+")")
		}
		for _, at := range pragma.FindAllStringIndex(n.Value, -1) {
			m.replace(n.Pos()+token.Pos(at[0]), n.Pos()+token.Pos(at[1]), "_dropped=")
		}
	case *ast.Ident:
		if value, err := strconv.ParseBool(n.Name); err == nil && len(n.Name) > 1 {
			m.replace(n.Pos(), n.End(), strconv.FormatBool(!value))
		}
	case *ast.ReturnStmt:
		for _, result := range n.Results {
			if looksLikeError.MatchString(m.code(result)) {
				m.replace(result.Pos(), result.End(), "nil")
			}
		}
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.BranchStmt:
		m.replace(n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			m.replace(n.Pos(), n.End(), "")
		}
	}
	return true
}

func (m *mutator) code(n ast.Node) string {
	return string(m.source[m.offset(n.Pos()):m.offset(n.End())])
}

func (m *mutator) offset(p token.Pos) int { return m.fset.Position(p).Offset }

// replace adds the mutant with another text between two positions; "" drops it.
func (m *mutator) replace(from, to token.Pos, text string) {
	a, b := m.offset(from), m.offset(to)
	start, end := bytes.LastIndexByte(m.source[:a], '\n')+1, b+max(0, bytes.IndexByte(m.source[b:], '\n'))
	after := string(m.source[start:a]) + text + string(m.source[b:end])
	if text == "" {
		after = "dropped"
	}
	m.line, m.mutant.text = m.fset.Position(from).Line, bytes.Join([][]byte{m.source[:a], m.source[b:]}, []byte(text))
	m.what = firstLine(string(m.source[start:end])) + " => " + firstLine(after)
	m.found = append(m.found, m.mutant)
}

func firstLine(text string) string { return strings.SplitN(strings.TrimSpace(text), "\n", 2)[0] }

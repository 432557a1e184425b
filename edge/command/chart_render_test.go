package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

const chartDir = "../chart"

// object of YAML or JSON, with what leads into it.
type object map[string]any

// at returns what lies below a path of names, nil where there is nothing.
func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, name := range path {
		inner, _ := v.(map[string]any)
		v = inner[name]
	}
	return v
}

func (o object) text(path ...string) string {
	if v := o.at(path...); v != nil {
		return fmt.Sprint(v)
	}
	return ""
}

func (o object) object(path ...string) object {
	inner, _ := o.at(path...).(map[string]any)
	return inner
}

// list returns a list of objects, none where there is none.
func (o object) list(path ...string) (all []object) {
	items, _ := o.at(path...).([]any)
	for _, item := range items {
		inner, _ := item.(map[string]any)
		all = append(all, inner)
	}
	return all
}

// words returns a list of texts.
func (o object) words(path ...string) (all []string) {
	items, _ := o.at(path...).([]any)
	for _, item := range items {
		all = append(all, fmt.Sprint(item))
	}
	return all
}

// readYAML reads documents as JSON would have them.
func readYAML(t *testing.T, text []byte) (all []object) {
	t.Helper()
	for one := range strings.SplitSeq("\n"+string(text), "\n---") {
		var raw any
		if err := yaml.Unmarshal([]byte(one), &raw); err != nil {
			t.Fatalf("%v in\n%s", err, one)
		}
		if raw == nil {
			continue
		}
		asJSON, err := json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		var o object
		if err := json.Unmarshal(asJSON, &o); err != nil {
			t.Fatalf("%v in\n%s", err, one)
		}
		all = append(all, o)
	}
	return all
}

// chartValues returns the chart's values with others laid over them, as helm does.
func chartValues(t *testing.T, over string) object {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := readYAML(t, text)[0]
	for _, o := range readYAML(t, []byte(over)) {
		overlay(values, o)
	}
	return values
}

func overlay(into, over map[string]any) {
	for name, v := range over {
		below, isObject := v.(map[string]any)
		if into, both := into[name].(map[string]any); isObject && both {
			overlay(into, below)
			continue
		}
		into[name] = v
	}
}

// chartSchema reads the schema of the chart's values, which helm holds them to.
func chartSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join(chartDir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// chartFunctions are those of helm's that the chart uses; another one is an error.
func chartFunctions(all *template.Template) template.FuncMap {
	return template.FuncMap{
		"add": func(a any, b int) (int, error) {
			n, err := strconv.Atoi(fmt.Sprint(a))
			return n + b, err
		},
		"append":     func(list []any, v any) []any { return append(list, v) },
		"list":       func(items ...any) []any { return items },
		"regexFind":  func(expr, text string) string { return regexp.MustCompile(expr).FindString(text) },
		"sha256sum":  func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
		"splitList":  func(by, text string) []string { return strings.Split(text, by) },
		"trimPrefix": func(prefix, text string) string { return strings.TrimPrefix(text, prefix) },
		"trimSuffix": func(suffix, text string) string { return strings.TrimSuffix(text, suffix) },
		"uniq": func(list []any) (unique []any) {
			for _, v := range list {
				if !slices.Contains(unique, v) {
					unique = append(unique, v)
				}
			}
			return unique
		},
		"default": func(fallback, v any) any {
			if truth, _ := template.IsTrue(v); !truth {
				return fallback
			}
			return v
		},
		"dict": func(pairs ...any) map[string]any {
			all := map[string]any{}
			for i := 0; i < len(pairs); i += 2 {
				all[pairs[i].(string)] = pairs[i+1]
			}
			return all
		},
		"fail": func(why string) (string, error) { return "", errors.New(why) },
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := all.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"nindent": func(n int, text string) string {
			return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
		},
		"quote": func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"required": func(why string, v any) (any, error) {
			if v == nil || v == "" {
				return nil, errors.New(why)
			}
			return v, nil
		},
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
	}
}

// renderChart renders the chart as `helm template edge` does with values laid over its own.
func renderChart(t *testing.T, over string) (objects []object, err error) {
	t.Helper()
	files, err := renderFiles(t, over)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			objects = append(objects, readYAML(t, files[name])...)
		}
	}
	return objects, err
}

// renderFiles returns what the chart's templates make, by file.
func renderFiles(t *testing.T, over string) (map[string][]byte, error) {
	t.Helper()
	values := chartValues(t, over)
	if err := chartSchema(t).Validate(map[string]any(values)); err != nil {
		return nil, err
	}
	about, err := os.ReadFile(filepath.Join(chartDir, "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	chart := readYAML(t, about)[0]
	all := template.New("chart").Option("missingkey=zero")
	all.Funcs(chartFunctions(all))
	files, err := filepath.Glob(filepath.Join(chartDir, "templates", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := all.New(filepath.Base(file)).Parse(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	data := map[string]any{
		"Values": map[string]any(values), "Release": map[string]any{"Name": "edge", "Namespace": "default"},
		"Chart": map[string]any{"Name": chart["name"], "AppVersion": chart["appVersion"]},
	}
	rendered := map[string][]byte{}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out bytes.Buffer
		if err := all.ExecuteTemplate(&out, name, data); err != nil {
			return nil, err
		}
		rendered[name] = out.Bytes()
	}
	return rendered, nil
}

// identity of an object in a cluster.
func identity(o object) string { return o.text("kind") + " " + o.text("metadata", "name") }

// byIdentity returns the objects under their names; two of one name are an error.
func byIdentity(t *testing.T, objects []object) map[string]object {
	t.Helper()
	all := make(map[string]object, len(objects))
	for _, o := range objects {
		if all[identity(o)] != nil {
			t.Errorf("two objects are %s: of %v", identity(o), slices.Sorted(maps.Keys(all)))
		}
		all[identity(o)] = o
	}
	return all
}

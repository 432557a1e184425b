package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"partneredge/edge/adminapi"
)

// odd steers a terminal in every way: C0, DEL, C1, and the direction of writing.
const odd = "\x1b[2J\x07\x7f\u009b31m\u202eodd"

// schema holds the parts of a schema of the admin API's document that the test reads.
type schema struct {
	Ref        string `json:"$ref"`
	Type       any    // a name, or a list of them
	Format     string
	Properties map[string]schema
	Items      *schema
	OneOf      []schema
	Enum       []string
}

// hostile is an admin API whose answers have the form of its document, and odd
// in every string.
type hostile struct {
	paths   map[string]map[string]json.RawMessage
	schemas map[string]schema
}

func newHostile(t *testing.T) *hostile {
	var document struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(adminapi.OpenAPI(), &document); err != nil {
		t.Fatal(err)
	}
	return &hostile{document.Paths, document.Components.Schemas}
}

// value makes a value of a schema.
func (h *hostile) value(s schema, name string) any {
	if s.Ref != "" {
		return h.value(h.schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]], name)
	}
	if len(s.OneOf) > 0 {
		return h.value(s.OneOf[0], name)
	}
	kind, _ := s.Type.(string)
	if kinds, several := s.Type.([]any); several {
		kind, _ = kinds[0].(string)
	}
	switch kind {
	case "object":
		object := map[string]any{}
		for name, property := range s.Properties {
			object[name] = h.value(property, name)
		}
		return object
	case "array":
		return []any{h.value(*s.Items, name)}
	case "integer", "number":
		return 1
	case "boolean":
		return true
	}
	switch {
	case name == "next_cursor":
		return nil
	case s.Format == "date-time":
		return time.Now().UTC().Format(time.RFC3339)
	case name == "state" && slices.Contains(s.Enum, "done"):
		return "done" // for which the command would wait
	}
	return odd
}

// ServeHTTP implements http.Handler.
func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := strings.Split(strings.TrimPrefix(r.URL.Path, "/admin/v1"), "/")
	for path, methods := range h.paths {
		parts := strings.Split(path, "/")
		if len(parts) != len(asked) || methods[strings.ToLower(r.Method)] == nil || !slices.EqualFunc(parts, asked, func(part, got string) bool {
			return part == got || strings.HasPrefix(part, "{")
		}) {
			continue
		}
		var operation struct {
			Responses map[string]struct {
				Content map[string]struct{ Schema schema }
			}
		}
		_ = json.Unmarshal(methods[strings.ToLower(r.Method)], &operation)
		for _, status := range []int{200, 201} {
			if answer, has := operation.Responses[fmt.Sprint(status)]; has {
				for kind, content := range answer.Content {
					h.answer(w, status, kind, h.value(content.Schema, ""))
					return
				}
			}
		}
	}
	h.answer(w, http.StatusBadRequest, "application/json", adminapi.Problem{Kind: odd, Reason: odd, Detail: odd})
}

func (h *hostile) answer(w http.ResponseWriter, status int, kind string, body any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	text, _ := json.Marshal(body) // of what value makes
	if strings.HasPrefix(kind, "text/event-stream") {
		try, _ := json.Marshal(h.value(h.schemas["Tried"], ""))
		fmt.Fprintf(w, "id: x\nevent: odd\u009b31m\ndata: %s\n\n", try)
		return
	}
	_, _ = w.Write(text)
}

// operatorCommands returns the command lines of every command of the admin API.
func operatorCommands() (lines [][]string) {
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			visit(c)
		}
		if cmd.HasSubCommands() || cmd.Flags().Lookup("admin") == nil || cmd.Flags().Lookup("token-file") == nil {
			return
		}
		line := strings.Fields(cmd.CommandPath())[1:]
		_, rest, _ := strings.Cut(cmd.Use, " ")
		for word := range strings.FieldsSeq(rest) {
			if strings.HasPrefix(word, "[") || strings.HasPrefix(word, "-") {
				break
			}
			line = append(line, "x")
		}
		lines = append(lines, line)
	}
	visit(newRoot("test"))
	return lines
}

// needed are flags without which a command asks nothing.
var needed = map[string][]string{
	"account delete":   {"--yes"},
	"account create":   {"--name", "x", "--agent", "x", "--email", "x"},
	"token create":     {"--name", "x"},
	"deliveries list":  {"--webhook", "x"},
	"delivery recover": {"x"},
	"listen":           {"--account", "x"},
	"lockout clear":    {"--all"},
}

// TestNothingSteersTheTerminal: whatever the admin API answers, and whatever a partner
// or an endpoint has put there, no command prints what steers a terminal: as text, as
// JSON, and as an error.
func TestNothingSteersTheTerminal(t *testing.T) {
	t.Parallel()
	good, bad := newHostile(t), &hostile{}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, api := range []*hostile{good, bad} {
		server := httptest.NewServer(api)
		defer server.Close()
		for _, line := range operatorCommands() {
			for _, more := range [][]string{nil, {"--json"}} {
				args := slices.Concat(line, needed[strings.Join(line[:min(2, len(line))], " ")], more, []string{"--admin", server.URL, "--token-file", token})
				var out, errs strings.Builder
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				code := Main(ctx, "test", args, &out, io.Writer(&errs))
				cancel()
				for _, text := range []string{out.String(), errs.String()} {
					if at := strings.IndexFunc(text, func(r rune) bool {
						return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
					}); at >= 0 {
						t.Errorf("edge %v prints %q", args, text[max(0, at-60):min(len(text), at+20)])
					}
					shown += strings.Count(text, "odd")
				}
				if code == exitUsage && !strings.Contains(errs.String(), "--") {
					t.Errorf("edge %v is not understood: %s", args, errs.String())
				}
			}
		}
	}
	if shown < 100 {
		t.Errorf("only %d odd texts were shown: the commands did not get as far", shown)
	}
}

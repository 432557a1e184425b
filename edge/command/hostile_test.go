package command

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"oras.land/oras-go/v2/content/oci"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/registry"
	"partneredge/edge/release"
	"partneredge/store/central"
)

// odd steers a terminal in every way: C0, DEL, C1, and the direction of writing.
const odd = "\x1b[2J\x07\x7f\u009b31m\u202eodd"

// schema holds the parts of a schema of the admin API's document that the test reads.
type schema struct {
	Ref        string `json:"$ref"`
	Type       any    // a name, or a list of them
	Format     string
	Properties map[string]schema
	Others     json.RawMessage `json:"additionalProperties"` // a schema, or false
	Items      *schema
	OneOf      []schema
	Enum       []string
}

// hostile is an admin API whose answers have the form of its document, and odd
// in every string.
type hostile struct {
	paths    map[string]map[string]json.RawMessage
	schemas  map[string]schema
	releases http.Handler // the registry of releases; nil: it refuses everything
	asked    atomic.Int64
	answered atomic.Pointer[func()] // is called for each request
}

func newHostile(t *testing.T) *hostile {
	var document struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(adminapi.OpenAPI(), &document); err != nil {
		t.Fatal(err)
	}
	db, err := central.Open(t.Context(), central.Config{URL: filepath.Join(t.TempDir(), "central.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &hostile{
		paths: document.Paths, schemas: document.Components.Schemas, releases: registry.New(db, slog.New(slog.DiscardHandler)),
	}
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
		var others schema
		if json.Unmarshal(s.Others, &others) == nil {
			object[odd] = h.value(others, "")
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
	h.asked.Add(1)
	if answered := h.answered.Load(); answered != nil {
		defer (*answered)()
	}
	if strings.HasPrefix(r.URL.Path, registry.Root) {
		if h.releases == nil {
			registry.Refuse(w, http.StatusBadRequest, odd, odd)
		} else {
			h.releases.ServeHTTP(w, r)
		}
		return
	}
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
					body := h.value(content.Schema, "")
					if r.Method == http.MethodPost && path == "/releases" {
						body.(map[string]any)["version"] = "1.0.0" // with which the registry is to tag it
					}
					h.answer(w, status, kind, body)
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
	switch {
	case strings.HasPrefix(kind, "text/event-stream"):
		try, _ := json.Marshal(h.value(h.schemas["Tried"], ""))
		fmt.Fprintf(w, "id: x\nevent: odd\u009b31m\ndata: %s\n\n", try)
	case strings.HasPrefix(kind, "application/x-ndjson"):
		lines := json.NewEncoder(w)
		_ = lines.Encode(adminapi.Exported[any]{Kind: odd, Record: body})
		_ = lines.Encode(adminapi.Exported[any]{Kind: adminapi.ExportedEnd, Record: adminapi.ExportEnd{Counts: map[string]int64{odd: 1}}})
	default:
		_, _ = w.Write(text)
	}
}

// operatorCommands returns the command lines of every command of the admin API. Those that
// read a file get file.
func operatorCommands(file string) (lines [][]string) {
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
			if word == "FILE" {
				word = file
			} else {
				word = odd // as the answers name what it looks for
			}
			line = append(line, word)
		}
		lines = append(lines, line)
	}
	visit(newRoot("test"))
	return lines
}

// neededFlags returns the flags without which a command asks nothing, once for each way
// in which it prints.
func neededFlags(t *testing.T) map[string][][]string {
	t.Helper()
	dir := t.TempDir()
	modules, _ := testFiles.get(t)
	key, public, layout := filepath.Join(dir, "release.key"), filepath.Join(dir, "release.pub"), filepath.Join(dir, "layout")
	edge(t, "release", "keygen", "--no-password", "--key", key, "--pub", public)
	target, err := oci.New(layout)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := release.Pack(t.Context(), target, modules, "1.0.0")
	if err == nil {
		err = target.Tag(t.Context(), packed, odd)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := []string{"--out", filepath.Join(dir, odd)}
	node := []string{"--name", "x", "--region", "x"}
	return map[string][][]string{
		"account delete":   {{"--yes"}},
		"account create":   {{"--name", "x", "--agent", "x", "--email", "x"}},
		"account export":   {nil, out},
		"token create":     {{"--name", "x"}},
		"deliveries list":  {{"--webhook", "x"}},
		"delivery recover": {{"x"}, {"--all", "--since", "1h"}},
		"listen":           {{"--account", "x"}},
		"lockout clear":    {{"--all"}, {"x"}},
		"node enrol":       {node, slices.Concat(node, out)},
		"region enrol":     {{"--region", "x", "--out", filepath.Join(dir, "region"+odd)}},
		"release push":     {{"--modules", modules, "--version", "1.0.0", "--key", key}},
		"release pull":     {{"--from", layout}},
		"release verify":   {{"--keys", public}},
	}
}

// TestNothingSteersTheTerminal: whatever the admin API answers, and whatever a partner
// or an endpoint has put there, no command prints what steers a terminal: as text, as
// JSON, and as an error.
func TestNothingSteersTheTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := written(t, filepath.Join(dir, "token"), []byte("x"))
	tombstones := written(t, filepath.Join(dir, "tombstones"), []byte(`[{"id":"x","deleted_at":"2026-01-01T00:00:00Z"}]`))
	needed := neededFlags(t)
	shown := 0
	for _, api := range []*hostile{newHostile(t), {}} {
		server := httptest.NewServer(api)
		defer server.Close()
		for _, line := range operatorCommands(tombstones) {
			ways := needed[strings.Join(line[:min(2, len(line))], " ")]
			if ways == nil {
				ways = [][]string{nil}
			}
			for _, flags := range ways {
				for _, more := range [][]string{nil, {"--json"}} {
					args := slices.Concat(line, flags, more, []string{"--admin", server.URL, "--token-file", token})
					var out, errs strings.Builder
					before := api.asked.Load()
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					if line[0] == "listen" || line[len(line)-1] == "tail" { // which go on for ever
						end := func() { time.AfterFunc(time.Second, cancel) }
						api.answered.Store(&end)
					}
					code := Main(ctx, "test", args, &out, &errs)
					cancel()
					api.answered.Store(nil)
					for _, text := range []string{out.String(), errs.String()} {
						if at := strings.IndexFunc(text, func(r rune) bool {
							return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
						}); at >= 0 {
							t.Errorf("edge %q prints %q", args, text[max(0, at-60):min(len(text), at+20)])
						}
						shown += strings.Count(text, "odd")
					}
					if code == exitUsage {
						t.Errorf("edge %q is not understood: %s", args, errs.String())
					}
					if api.asked.Load() == before {
						t.Errorf("edge %q asked nothing: %s", args, errs.String())
					}
				}
			}
		}
	}
	if shown < 100 {
		t.Errorf("only %d odd texts were shown: the commands did not get as far", shown)
	}
}

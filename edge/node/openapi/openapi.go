// Package openapi holds the partner API's OpenAPI 3.1 document, written by hand, joins
// it with what modules describe of their own, and serves it with a reference and a guide
// that are made from it and from Markdown. None of them needs a key, a script, or
// anything from elsewhere.
package openapi

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

//go:embed openapi.json
var document []byte

//go:embed guide pages
var files embed.FS

// DocumentPath and DocsPath are the paths that Handler answers, and with them all
// that is below DocsPath.
const (
	DocumentPath = "/api/v2/public/openapi.json"
	DocsPath     = "/docs"
)

// Document returns the document's JSON, a copy.
func Document() []byte { return bytes.Clone(document) }

// Serves reports whether Handler answers path.
func Serves(path string) bool {
	return path == DocumentPath || path == DocsPath || strings.HasPrefix(path, DocsPath+"/")
}

// Handler answers GET and HEAD of DocumentPath and of the pages at and below DocsPath,
// other methods with 405 and other paths with 404. The pages are rendered at the first
// request.
func Handler() http.Handler { return embedded }

// embedded is the handler of the embedded document, which every release has that
// describes no route of its own.
var embedded = &handler{files: sync.OnceValue(func() map[string]file {
	files, err := newFiles(document)
	if err != nil {
		panic(fmt.Sprintf("openapi: the embedded document: %v", err)) // tests render it
	}
	return files
})}

// Paths lists the paths that Handler answers with 200.
func Paths() []string {
	paths := []string{DocumentPath, DocsPath, DocsPath + "/docs.css", DocsPath + "/icon.svg", DocsPath + "/signature-vectors.json"}
	for _, c := range chapters() {
		paths = append(paths, c.Path())
	}
	return paths
}

// NewHandler is Handler for another document, such as one that Join returned. It fails
// when the document cannot be read or rendered.
func NewHandler(other []byte) (http.Handler, error) {
	if bytes.Equal(other, document) {
		return embedded, nil
	}
	files, err := newFiles(other)
	if err != nil {
		return nil, err
	}
	return &handler{files: func() map[string]file { return files }}, nil
}

// newFiles returns every answer of a document's handler, by its path.
func newFiles(document []byte) (map[string]file, error) {
	all, err := render(document)
	if err != nil {
		return nil, err
	}
	all[DocumentPath] = file{body: document, kind: "application/json", age: "public, no-cache", shared: true}
	for path, f := range all {
		f.tag = etag(f.body)
		all[path] = f
	}
	return all, nil
}

// WithRoot redirects GET and HEAD of / to DocsPath, where a visitor with a browser
// finds what this is, and lets next answer all else.
func WithRoot(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			http.Redirect(w, r, DocsPath, http.StatusFound)
			return
		}
		next.ServeHTTP(w, r)
	})
}

type handler struct{ files func() map[string]file }

// file is an answer that is the same for every request.
type file struct {
	body      []byte
	kind, age string
	tag       string
	shared    bool // pages of other origins may read it
}

// policy allows pages their style and nothing else: no script, no frame, no form.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed")
		return
	}
	f, found := h.files()[strings.TrimSuffix(r.URL.Path, "/")]
	if !found {
		refuse(w, http.StatusNotFound, "not_found")
		return
	}
	header.Set("Content-Type", f.kind)
	header.Set("Cache-Control", f.age)
	header.Set("ETag", f.tag)
	if f.shared {
		header.Set("Access-Control-Allow-Origin", "*")
	} else {
		header.Set("Content-Security-Policy", policy)
		header.Set("Referrer-Policy", "no-referrer")
	}
	if strings.Contains(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(f.body)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q}`, code)
}

func etag(b []byte) string {
	sum := sha256.Sum256(b)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// Package openapi holds the partner API's OpenAPI 3.1 document, written by
// hand, and serves it with a reference page. Neither needs a key, and the page
// needs nothing from elsewhere.
package openapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5emb"
)

//go:embed openapi.json
var document []byte

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

// Handler answers GET and HEAD of the paths that Serves names, with 404 for
// what is not below DocsPath and 405 for other methods. Use one for all
// requests.
func Handler() http.Handler {
	page := v5emb.NewHandlerWithConfig(swgui.Config{
		Title:       "Partner API",
		SwaggerJSON: DocumentPath,
		BasePath:    DocsPath,
		SettingsUI:  map[string]string{"defaultModelsExpandDepth": "1"},
	})
	h := &handler{index: render(page), assets: page, tag: etag(document)}
	h.policy = policy(h.index)
	return h
}

type handler struct {
	index  []byte
	assets http.Handler // scripts and styles below DocsPath
	tag    string       // of the document
	policy string       // of the page
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed")
		return
	}
	switch path := r.URL.Path; {
	case path == DocumentPath:
		header.Set("Content-Type", "application/json")
		header.Set("Cache-Control", "public, max-age=300")
		header.Set("Access-Control-Allow-Origin", "*")
		header.Set("ETag", h.tag)
		if strings.Contains(r.Header.Get("If-None-Match"), h.tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(document)
	case path == DocsPath || path == DocsPath+"/":
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", h.policy)
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-cache")
		_, _ = w.Write(h.index)
	case Serves(path):
		header.Set("Cache-Control", "public, max-age=3600")
		h.assets.ServeHTTP(w, r)
	default:
		refuse(w, http.StatusNotFound, "not_found")
	}
}

// render returns the HTML of page, which is the same for every request.
func render(page http.Handler) []byte {
	w := buffer{header: http.Header{}}
	page.ServeHTTP(&w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: DocsPath}})
	return w.Bytes()
}

// buffer is an http.ResponseWriter that keeps the body.
type buffer struct {
	bytes.Buffer
	header http.Header
}

func (b *buffer) Header() http.Header { return b.header }
func (b *buffer) WriteHeader(int)     {}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":%q}`, code)
}

func etag(b []byte) string {
	sum := sha256.Sum256(b)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// policy allows the page its own files, the scripts written in it (by their
// hashes), the styles and pictures that its scripts make, and calls to the node
// it came from; nothing else.
func policy(page []byte) string {
	scripts := "'self'"
	for rest := page; ; {
		_, after, found := bytes.Cut(rest, []byte("<script>"))
		if !found {
			break
		}
		script, after, _ := bytes.Cut(after, []byte("</script>"))
		sum := sha256.Sum256(script)
		scripts += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		rest = after
	}
	return "default-src 'none'; script-src " + scripts + "; style-src 'self' 'unsafe-inline'; " +
		"img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

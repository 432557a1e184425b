package sandboxctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// Docs are answers that are always the same, by path: the pages that a node serves
// beside the API. The program that starts a sandbox program writes them to a file as
// JSON, since the pages are no part of the sandbox program.
type Docs struct {
	Root  string          `json:"root"` // where GET / leads; "": it is the API's
	Pages map[string]Page `json:"pages"`
}

// Page is one answer.
type Page struct {
	Header map[string]string `json:"header"`
	Body   []byte            `json:"body"`
}

// ReadDocs reads a file of Docs.
func ReadDocs(file string) (d Docs, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return d, fmt.Errorf("read docs: %w", err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("read docs: %w", err)
	}
	return d, nil
}

// Before answers GET and HEAD of the pages, and all else by next.
func (d Docs) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/" && d.Root != "" {
			http.Redirect(w, r, d.Root, http.StatusFound)
			return
		}
		page, found := d.Pages[strings.TrimSuffix(r.URL.Path, "/")]
		if !found {
			next.ServeHTTP(w, r)
			return
		}
		for name, value := range page.Header {
			w.Header().Set(name, value)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(page.Body))
	})
}

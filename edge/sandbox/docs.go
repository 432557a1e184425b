package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"partneredge/edge/node/openapi"
	"partneredge/store/durable"
	"partneredge/wasm/sandboxctl"
)

// writeDocs writes the pages that a node serves beside the API to a file in a new
// folder, for the sandbox program, which sees no file but that. remove removes both.
func writeDocs() (file string, remove func(), err error) {
	docs := sandboxctl.Docs{Root: openapi.DocsPath, Pages: make(map[string]sandboxctl.Page)}
	handler := openapi.Handler()
	for _, path := range openapi.Paths() {
		kept := httptest.NewRecorder()
		req, err := http.NewRequest(http.MethodGet, path, nil)
		if err != nil {
			return "", nil, err
		}
		handler.ServeHTTP(kept, req)
		page := sandboxctl.Page{Header: make(map[string]string), Body: kept.Body.Bytes()}
		for name, values := range kept.Header() {
			page.Header[name] = values[0]
		}
		docs.Pages[path] = page
	}
	content, err := json.Marshal(docs)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "partneredge-sandbox-")
	if err != nil {
		return "", nil, fmt.Errorf("writing the sandbox's pages: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file = filepath.Join(dir, "docs.json")
	if err := durable.WriteFile(file, content, 0o600); err != nil {
		remove()
		return "", nil, fmt.Errorf("writing the sandbox's pages: %w", err)
	}
	return file, remove, nil
}

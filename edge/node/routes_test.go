package node

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/edge/node/openapi"
	"partneredge/edge/release/releasetest"
	"partneredge/edge/wire"
	"partneredge/store"
)

// withRoute returns the manifest of the module agents with one route more and an
// OpenAPI fragment.
func withRoute(t *testing.T, path, fragment string) []byte {
	t.Helper()
	text := must(os.ReadFile(filepath.Join(must(builtModules())(t), "agents.json")))(t)
	var manifest map[string]any
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	manifest["routes"] = append(manifest["routes"].([]any), map[string]any{"method": "GET", "path": path, "scope": "x:quotes"})
	manifest["openapi"] = json.RawMessage(fragment)
	return must(json.Marshal(manifest))(t)
}

const quotesFragment = `{"paths": {"/api/v2/public/quotes/{id}": {"get": {"operationId": "getQuote",
	"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
	"responses": {"200": {"description": "A quote."}}}}}}`

// TestReleaseBringsRoutes runs a release with a route that the node was not built with:
// it is answered and described while that release runs, to keys that have its scope.
func TestReleaseBringsRoutes(t *testing.T) {
	t.Parallel()
	const quote = "/api/v2/public/quotes/1"
	o, by := newOrigin(t), newOperator(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", func(k *store.Key) { k.Scopes = append(k.Scopes, "x:quotes") })
	other := o.addKey("key_2", func(k *store.Key) { k.Scopes = append(k.Scopes, "x:rates") })
	digest := o.ship("1.0.0", map[string][]byte{"agents.json": withRoute(t, "/api/v2/public/quotes/{id}", quotesFragment)}, by)
	n := startNode(t, trusting(t, o, by))
	o.runs("")
	ask(t, n, "GET", quote, key, "").want(t, 404)
	before := ask(t, n, "GET", openapi.DocumentPath, "", "")
	if before.body != string(openapi.Document()) {
		t.Error("without modules of one's own the document is another")
	}
	o.order(wire.Order{Run: digest})
	o.runs(digest)
	ask(t, n, "GET", quote, key, "").want(t, 200)
	ask(t, n, "GET", quote, other, "").want(t, 403)
	ask(t, n, "POST", quote, other, "").want(t, 405)
	ask(t, n, "GET", me, key, "").want(t, 200)
	after := ask(t, n, "GET", openapi.DocumentPath, "", "")
	if !strings.Contains(after.body, "getQuote") || after.header.Get("ETag") == before.header.Get("ETag") {
		t.Errorf("the document does not describe the route, or has the same tag: %s", after.header)
	}
	o.order(wire.Order{})
	o.runs("")
	ask(t, n, "GET", quote, key, "").want(t, 404)
	if again := ask(t, n, "GET", openapi.DocumentPath, "", ""); again.header.Get("ETag") != before.header.Get("ETag") {
		t.Error("after the rollback the document is another than before")
	}
}

// TestRefusesDocument refuses a release, which whoever packed it did not check, whose
// modules describe what they do not answer.
func TestRefusesDocument(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	digest := o.ship("1.0.0", map[string][]byte{"agents.json": withRoute(t, "/api/v2/public/rates", quotesFragment)}, by)
	startNode(t, trusting(t, o, by))
	o.order(wire.Order{Run: digest})
	o.told("it is refused", func(r, c *wire.ReleaseStatus) bool {
		return r.Digest == "" && c != nil && c.State == wire.ReleaseRefused &&
			strings.Contains(c.Reason, "openapi of module agents: it describes GET /api/v2/public/quotes/{id}, which is none of the module's routes")
	})
}

// TestRefusesRoutes starts a node with modules that two of would answer one route.
func TestRefusesRoutes(t *testing.T) {
	t.Parallel()
	built := must(builtModules())(t)
	leads := must(os.ReadFile(filepath.Join(built, "leads.json")))(t)
	leads = bytes.Replace(leads, []byte(`"POST", "path": "/api/v2/public/leads", "scope": "write:leads"`),
		[]byte(`"GET", "path": "/api/v2/public/agents/me", "scope": "read:agent"`), 1)
	c := config(t, newOrigin(t))
	c.Modules = releasetest.Modules(t, built, map[string][]byte{"leads.json": leads})
	n, err := Start(context.Background(), c)
	if err == nil {
		stopNode(t, n)
	}
	if err == nil || !strings.Contains(err.Error(), "of module leads: it is a route of module agents already") {
		t.Errorf("started: %v", err)
	}
}

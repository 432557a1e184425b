package registry

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"partneredge/edge/release"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/audit"
	"partneredge/store/central/centraltest/sqlitetest"
)

var schema = sqlitetest.Template{Migrations: "../../../store/central/migrations"}

// by returns a context of an actor.
func by(ctx context.Context, actor string) context.Context {
	return audit.WithActor(ctx, store.Actor{ID: actor})
}

// TestBound: requests of an actor wait for their place, behind each other, and are refused
// when they have waited too long or too many wait. Another actor's are served meanwhile.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(nil, nil).(*registry)
		var mu sync.Mutex
		var leave []func()
		served, refused := 0, 0
		enter := func() {
			end, err := g.checks.enter(by(t.Context(), "greedy"))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				served++
				leave = append(leave, end)
			case err == errBusy:
				refused++
			default:
				t.Error(err)
			}
		}
		expect := func(when string, wantServed, wantRefused int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if served != wantServed || refused != wantRefused {
				t.Fatalf("%s: %d are served and %d refused, want %d and %d", when, served, refused, wantServed, wantRefused)
			}
		}
		for range checksAsked + 1 {
			go enter()
			synctest.Wait()
		}
		expect("at first", checksOfOne, 1)
		other, err := g.checks.enter(by(t.Context(), "other"))
		if err != nil {
			t.Fatalf("another actor's: %v", err)
		}
		other()
		mu.Lock()
		first := leave[0]
		mu.Unlock()
		first()
		expect("when one has ended", checksOfOne+1, 1)
		time.Sleep(maxWait)
		expect("after a while", checksOfOne+1, 1+checksAsked-checksOfOne-1)
		for _, end := range leave[1:] {
			end()
		}
		enter()
		expect("when all have ended", checksOfOne+2, 1+checksAsked-checksOfOne-1)
	})
}

// TestBlobsAreBounded has an actor ask for as many blobs as may wait: what else it asks for that
// reads blobs is refused, and another actor gets it.
func TestBlobsAreBounded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, err := central.Open(ctx, central.Config{URL: schema.Copy(t, filepath.Join(t.TempDir(), "central.db"))})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	text := []byte("a blob, and no manifest")
	name := digest.FromBytes(text).String()
	id, err := db.BeginUpload(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.AppendUpload(ctx, id, 0, text); err != nil {
		t.Fatal(err)
	}
	if err := db.FinishUpload(ctx, id, name); err != nil {
		t.Fatal(err)
	}
	if err := db.PutManifest(ctx, store.Manifest{
		Digest: name, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: release.ArtifactType, Content: text,
	}, ""); err != nil {
		t.Fatal(err)
	}
	g := New(db, slog.New(slog.DiscardHandler)).(*registry)
	ask := func(actor, method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequestWithContext(by(ctx, actor), method, path, nil))
		return w
	}
	for _, c := range []struct {
		bound        *bound
		method, path string
		status       int
	}{
		{&g.checks, "HEAD", "/v2/releases/blobs/" + name, http.StatusOK},
		{&g.checks, "HEAD", "/v2/releases/manifests/" + name, http.StatusNotFound},
		{&g.reads, "GET", "/v2/releases/blobs/" + name, http.StatusOK},
	} {
		var leave []func()
		for {
			end, ok := c.bound.asked.Take("greedy")
			if !ok {
				break
			}
			leave = append(leave, end)
		}
		if w := ask("greedy", c.method, c.path); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" ||
			!strings.Contains(w.Body.String(), `"code":"TOOMANYREQUESTS"`) {
			t.Errorf("%s %s: %d %v %s", c.method, c.path, w.Code, w.Header(), w.Body)
		}
		if w := ask("other", c.method, c.path); w.Code != c.status {
			t.Errorf("%s %s of another actor: %d %s", c.method, c.path, w.Code, w.Body)
		}
		for _, end := range leave {
			end()
		}
		for range len(leave) + 1 { // each leaves its place
			if w := ask("greedy", c.method, c.path); w.Code != c.status {
				t.Fatalf("%s %s afterwards: %d %s", c.method, c.path, w.Code, w.Body)
			}
		}
	}
}

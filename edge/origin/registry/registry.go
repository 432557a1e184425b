// Package registry serves releases and their signatures by the OCI distribution
// API, version 1.1, as one repository named "releases". Clients pull manifests,
// blobs, tags and referrers, and push manifests and blobs, whole or in chunks.
// There is no deletion.
//
// It accepts only the manifests of releases and signatures (package release).
// Clients must not trust what they pull: nodes verify it themselves.
package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"strings"

	"partneredge/store"
	"partneredge/store/central"
)

// Root is the path of the API, and Repository the only repository.
const (
	Root       = "/v2/"
	Repository = "releases"
)

// registry serves the API from the database.
type registry struct {
	store *central.DB
	log   *slog.Logger
	mux   *http.ServeMux

	checks bound // of blobs against their digests
	reads  bound // of blobs that are sent
}

// Bounds of requests for blobs. A check reads up to 256 MB over one of the connections to the
// database, which partners and nodes need too; with SQLite there are eight. A blob that is
// sent holds a chunk in memory for as long as its client takes.
const (
	checksMost  = 3
	checksOfOne = 2 // of them, the most of one actor
	checksAsked = 32
	readsOfOne  = 16
	readsAsked  = 64
)

// New returns the handler of the API below Root. The caller authenticates clients.
func New(s *central.DB, log *slog.Logger) http.Handler {
	g := &registry{store: s, log: log, mux: http.NewServeMux()}
	g.checks.asked.Each, g.checks.serving.All, g.checks.serving.Each = checksAsked, checksMost, checksOfOne
	g.reads.asked.Each, g.reads.serving.Each = readsAsked, readsOfOne
	const base = Root + Repository
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET " + Root + "{$}":                    g.version,
		"GET " + base + "/manifests/{reference}": g.getManifest, // and HEAD
		"PUT " + base + "/manifests/{reference}": g.putManifest,
		"GET " + base + "/tags/list":             g.listTags,
		"GET " + base + "/referrers/{digest}":    g.listReferrers,
		"GET " + base + "/blobs/{digest}":        g.getBlob,
		"POST " + base + "/blobs/uploads/{$}":    g.beginUpload,
		"GET " + base + "/blobs/uploads/{id}":    g.showUpload,
		"PATCH " + base + "/blobs/uploads/{id}":  g.appendUpload,
		"PUT " + base + "/blobs/uploads/{id}":    g.finishUpload,
		"DELETE " + base + "/blobs/uploads/{id}": g.cancelUpload,
	} {
		g.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := serve(w, r); err != nil {
				g.refuse(w, r, err)
			}
		})
	}
	return g
}

// ServeHTTP answers every request in the form of the API, including those that the
// mux would redirect or answer in plain text.
func (g *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, pattern := g.mux.Handler(r)
	clean := path.Clean(r.URL.Path)
	switch {
	case clean != r.URL.Path && clean+"/" != r.URL.Path:
		Refuse(w, http.StatusNotFound, "NAME_INVALID", "the path is not in its shortest form")
	case pattern == "" && strings.HasPrefix(clean+"/", Root+Repository+"/"):
		Refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "this is not offered here")
	case pattern == "":
		Refuse(w, http.StatusNotFound, "NAME_UNKNOWN", "the one repository is "+Repository)
	default:
		g.mux.ServeHTTP(w, r)
	}
}

func (g *registry) version(w http.ResponseWriter, _ *http.Request) error {
	write(w, http.StatusOK, "application/json", struct{}{})
	return nil
}

// problem is an error that is described to the client.
type problem struct {
	status        int
	code, message string // code as the distribution specification lists them
}

func (p *problem) Error() string { return p.code + ": " + p.message }

// Refuse answers with an error in the form of the API.
func Refuse(w http.ResponseWriter, status int, code, message string) {
	type one struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	write(w, status, "application/json", map[string][]one{"errors": {{code, message}}})
}

// refuse answers with err. An error that is not the client's is logged and not
// described.
func (g *registry) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var p *problem
	switch {
	case errors.As(err, &p):
	case errors.Is(err, store.ErrLimit):
		p = &problem{http.StatusTooManyRequests, "TOOMANYREQUESTS", "too many uploads are under way"}
	default:
		g.log.Error("registry request failed", "method", r.Method, "path", r.URL.Path, "err", err)
		w.Header().Set("Retry-After", "1")
		p = &problem{http.StatusInternalServerError, "UNKNOWN", "a fault of the registry; safe to try again"}
	}
	if p == errBusy {
		w.Header().Set("Retry-After", "5")
	}
	Refuse(w, p.status, p.code, p.message)
}

// unknown returns err, or a problem with this code if err is store.ErrNotFound.
func unknown(err error, code, message string) error {
	if errors.Is(err, store.ErrNotFound) {
		return &problem{http.StatusNotFound, code, message}
	}
	return err
}

func write(w http.ResponseWriter, status int, mediaType string, body any) {
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(body); err != nil { // only a bug makes a body that cannot be encoded
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Docker-Distribution-Api-Version", "registry/2.0")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // the client may be gone
}

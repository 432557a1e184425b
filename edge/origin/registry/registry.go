// Package registry serves releases and their signatures by the OCI distribution
// API, version 1.1, as one repository named "releases": pull of manifests, blobs,
// tags and referrers; push of blobs, whole or in pieces, and of manifests. There
// is no deletion.
//
// Nothing but releases and signatures (package release) is taken as a manifest.
// What a registry's client reads here proves nothing: nodes verify for
// themselves.
package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"strings"

	"partneredge/store"
)

// Root is where the API begins, and Repository the one that there is.
const (
	Root       = "/v2/"
	Repository = "releases"
)

// Store keeps what was pushed. Its errors are those of package store.
type Store interface {
	// PutManifest keeps a manifest, and has tag name it unless that is "".
	PutManifest(ctx context.Context, m store.Manifest, tag string) error
	// Manifest reads the manifest that a digest or a tag names.
	Manifest(ctx context.Context, reference string) (store.Manifest, error)
	// Referrers reads at most so many manifests that are about another.
	Referrers(ctx context.Context, subject string, most int) ([]store.Manifest, error)
	// Tags reads at most so many tags that come after one.
	Tags(ctx context.Context, after string, most int) ([]string, error)

	// BlobSize is the size in bytes of a blob.
	BlobSize(ctx context.Context, digest string) (int64, error)
	// ReadBlob reads some of a blob from an offset on, at most so many bytes; none
	// at its end.
	ReadBlob(ctx context.Context, digest string, offset int64, most int) ([]byte, error)

	// BeginUpload makes an upload, to which AppendUpload adds pieces of at most 1 MiB
	// (store.ErrConflict when the offset is not its end) and which FinishUpload makes
	// the blob of a digest (store.ErrInvalid when it has another).
	BeginUpload(ctx context.Context) (id string, err error)
	UploadSize(ctx context.Context, id string) (int64, error)
	AppendUpload(ctx context.Context, id string, offset int64, piece []byte) error
	FinishUpload(ctx context.Context, id, digest string) error
	CancelUpload(ctx context.Context, id string) error
}

// registry is the API over a store.
type registry struct {
	store Store
	log   *slog.Logger
	mux   *http.ServeMux
}

// New is the API below Root. Who may ask is for the caller to judge.
func New(s Store, log *slog.Logger) http.Handler {
	g := &registry{store: s, log: log, mux: http.NewServeMux()}
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

// ServeHTTP answers every request in the form of the API, those as well that the
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

// problem is an error that the client is told of.
type problem struct {
	status        int
	code, message string // code as the distribution specification lists them
}

func (p *problem) Error() string { return p.code + ": " + p.message }

// Refuse answers with an error in the API's form.
func Refuse(w http.ResponseWriter, status int, code, message string) {
	type one struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	write(w, status, "application/json", map[string][]one{"errors": {{code, message}}})
}

// refuse answers with what err is. What is no problem of the client's is logged,
// and not described.
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
	Refuse(w, p.status, p.code, p.message)
}

// unknown is err, or where that is store.ErrNotFound the problem of that code.
func unknown(err error, code, message string) error {
	if errors.Is(err, store.ErrNotFound) {
		return &problem{http.StatusNotFound, code, message}
	}
	return err
}

func write(w http.ResponseWriter, status int, mediaType string, body any) {
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(body); err != nil { // a body of ours that cannot be written is a fault of ours
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Docker-Distribution-Api-Version", "registry/2.0")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // the client may be gone
}

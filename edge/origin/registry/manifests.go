package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"partneredge/edge/release"
	"partneredge/store"
)

// tagForm is the form of a tag in the distribution specification.
var tagForm = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// isDigest reports whether a reference is a digest, valid or not, and no tag.
func isDigest(reference string) bool { return strings.Contains(reference, ":") }

const noManifest = "there is no such manifest"

func (g *registry) getManifest(w http.ResponseWriter, r *http.Request) error {
	reference := r.PathValue("reference")
	m, err := g.store.Manifest(r.Context(), reference)
	if err != nil {
		return unknown(err, "MANIFEST_UNKNOWN", noManifest)
	}
	// As of blobs (getBlob). Clients that are told of a manifest ask for nothing that it names.
	if r.Method == http.MethodHead {
		leave, err := g.checks.enter(r.Context())
		if err != nil {
			return err
		}
		defer leave()
		if whole, err := g.isWhole(r.Context(), m); err != nil {
			return err
		} else if !whole {
			return &problem{http.StatusNotFound, "MANIFEST_UNKNOWN", noManifest}
		}
	}
	h := w.Header()
	h.Set("Content-Type", m.MediaType)
	h.Set("Content-Length", strconv.Itoa(len(m.Content)))
	h.Set("Docker-Content-Digest", m.Digest)
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodHead {
		_, _ = w.Write(m.Content) // the client may be gone
	}
	return nil
}

// isWhole reports whether a manifest, its subject and all blobs of both have their digests.
func (g *registry) isWhole(ctx context.Context, m store.Manifest) (bool, error) {
	artifact, err := release.Describe(m.Content)
	if err != nil || digest.FromBytes(m.Content).String() != m.Digest {
		return false, nil
	}
	for _, d := range artifact.Blobs {
		if whole, err := g.store.HoldsBlob(ctx, string(d.Digest)); err != nil || !whole {
			return false, absent(err)
		}
	}
	if artifact.Subject == "" {
		return true, nil
	}
	subject, err := g.store.Manifest(ctx, artifact.Subject)
	if err != nil {
		return false, absent(err)
	}
	return g.isWhole(ctx, subject)
}

// absent returns err, or nil if it is store.ErrNotFound.
func absent(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// putManifest stores the manifest of a release or of a signature, whose blobs must
// be in the store.
func (g *registry) putManifest(w http.ResponseWriter, r *http.Request) error {
	text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, release.MaxManifest))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return &problem{http.StatusRequestEntityTooLarge, "SIZE_INVALID", fmt.Sprintf("a manifest has at most %d bytes", release.MaxManifest)}
	}
	if err != nil {
		return &problem{http.StatusBadRequest, "MANIFEST_INVALID", "the body could not be read"}
	}
	artifact, err := release.Describe(text)
	if err != nil {
		return &problem{http.StatusBadRequest, "MANIFEST_INVALID", err.Error()}
	}
	if mediaType := r.Header.Get("Content-Type"); mediaType != ocispec.MediaTypeImageManifest {
		return &problem{http.StatusBadRequest, "MANIFEST_INVALID", "Content-Type must be " + ocispec.MediaTypeImageManifest}
	}
	reference, name := r.PathValue("reference"), digest.FromBytes(text).String()
	tag := ""
	switch {
	case reference == name:
	case isDigest(reference):
		return &problem{http.StatusBadRequest, "DIGEST_INVALID", "the manifest has the digest " + name}
	case !tagForm.MatchString(reference):
		return &problem{http.StatusBadRequest, "TAG_INVALID", "no tag has that form"}
	case artifact.Type != release.ArtifactType:
		return &problem{http.StatusBadRequest, "TAG_INVALID", "only releases have tags"}
	default:
		tag = reference
	}
	if err := g.hasBlobs(r, artifact); err != nil {
		return err
	}
	err = g.store.PutManifest(r.Context(), store.Manifest{
		Digest: name, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifact.Type, Subject: artifact.Subject, Content: text,
	}, tag)
	if errors.Is(err, store.ErrLimit) {
		return &problem{http.StatusBadRequest, "MANIFEST_INVALID", fmt.Sprintf("the release has %d other signatures already, and no more are read", release.MaxSignatures)}
	}
	if err != nil {
		return err
	}
	if artifact.Subject != "" {
		w.Header().Set("OCI-Subject", artifact.Subject) // else clients keep an index of referrers themselves
	}
	w.Header().Set("Location", Root+Repository+"/manifests/"+name)
	w.Header().Set("Docker-Content-Digest", name)
	w.WriteHeader(http.StatusCreated)
	return nil
}

// hasBlobs returns an error unless the store has everything that the artifact
// names, and a signature is one of its subject.
func (g *registry) hasBlobs(r *http.Request, a release.Artifact) error {
	for _, d := range a.Blobs {
		size, err := g.store.BlobSize(r.Context(), string(d.Digest))
		if err != nil {
			return unknown(err, "MANIFEST_BLOB_UNKNOWN", "there is no blob "+string(d.Digest))
		}
		if size != d.Size {
			return &problem{http.StatusBadRequest, "SIZE_INVALID", fmt.Sprintf("%s has %d bytes", d.Digest, size)}
		}
	}
	if a.Subject == "" {
		return nil
	}
	subject, err := g.store.Manifest(r.Context(), a.Subject)
	if err == nil && subject.ArtifactType != release.ArtifactType {
		err = fmt.Errorf("%w: its subject is no release", store.ErrNotFound)
	}
	if err != nil {
		return unknown(err, "MANIFEST_UNKNOWN", "there is no release "+a.Subject)
	}
	signature, err := source{g.store}.Blob(r.Context(), a.Blobs[0])
	if err != nil {
		return err
	}
	if err := release.CheckSignature(signature, a.Subject); err != nil {
		return &problem{http.StatusBadRequest, "MANIFEST_INVALID", err.Error()}
	}
	return nil
}

// Bounds of lists.
const (
	maxTags      = 1000
	maxReferrers = 100
)

func (g *registry) listTags(w http.ResponseWriter, r *http.Request) error {
	limit := maxTags
	if text := r.URL.Query().Get("n"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return &problem{http.StatusBadRequest, "UNSUPPORTED", "n must be a number"}
		}
		limit = min(n, limit)
	}
	tags, err := g.store.Tags(r.Context(), r.URL.Query().Get("last"), limit+1)
	if errors.Is(err, store.ErrInvalid) {
		return &problem{http.StatusBadRequest, "TAG_INVALID", "last is no tag"}
	}
	if err != nil {
		return err
	}
	if len(tags) > limit {
		if tags = tags[:limit]; limit > 0 {
			more := url.Values{"n": {strconv.Itoa(limit)}, "last": {tags[limit-1]}}
			w.Header().Set("Link", fmt.Sprintf(`<%s%s/tags/list?%s>; rel="next"`, Root, Repository, more.Encode()))
		}
	}
	write(w, http.StatusOK, "application/json", struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}{Repository, tags})
	return nil
}

func (g *registry) listReferrers(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("digest")
	if release.CheckDigest(name) != nil {
		return &problem{http.StatusBadRequest, "DIGEST_INVALID", "no digest has that form"}
	}
	found, err := g.store.Referrers(r.Context(), name, maxReferrers)
	if err != nil {
		return err
	}
	index := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{},
	}
	want := r.URL.Query().Get("artifactType")
	for _, m := range found {
		if want == "" || m.ArtifactType == want {
			index.Manifests = append(index.Manifests, ocispec.Descriptor{
				MediaType: m.MediaType, ArtifactType: m.ArtifactType, Digest: digest.Digest(m.Digest), Size: int64(len(m.Content)),
			})
		}
	}
	if want != "" {
		w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	write(w, http.StatusOK, ocispec.MediaTypeImageIndex, index)
	return nil
}

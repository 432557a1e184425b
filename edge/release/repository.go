package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"partneredge/edge/hint"
	"partneredge/store/durable"
)

// OpenLayout opens an OCI layout that is there.
func OpenLayout(ctx context.Context, dir string) (layout *oci.Store, err error) {
	if _, err = os.Stat(filepath.Join(dir, "oci-layout")); err == nil {
		layout, err = oci.NewWithContext(ctx, dir)
	}
	if err != nil {
		return nil, noLayout(err)
	}
	return layout, nil
}

func noLayout(err error) error {
	return hint.Add(fmt.Errorf("opening the layout: %w", err), "edge release pack --layout DIR makes one")
}

// LockLayout keeps others who call it from an OCI layout until unlock is called: each of them
// reads its index, and writes it anew. It waits for one of them, until ctx ends.
func LockLayout(ctx context.Context, dir string) (unlock func(), err error) {
	unlock, err = durable.AwaitFile(ctx, filepath.Join(dir, "edge.lock"))
	switch {
	case errors.Is(err, durable.ErrLocked):
		return nil, fmt.Errorf("opening the layout: %w", err)
	case err != nil:
		return nil, noLayout(err)
	}
	return unlock, nil
}

// CutLayout returns the parts of LAYOUT:RELEASE, where LAYOUT is the folder of an OCI
// layout; dir is "" for any other name.
func CutLayout(name string) (dir, reference string) {
	for i := range name {
		if name[i] != ':' {
			continue
		}
		if _, err := os.Stat(filepath.Join(name[:i], "oci-layout")); err == nil && i > 0 {
			return name[:i], name[i+1:]
		}
	}
	return "", ""
}

// Repository returns the repository of a registry that HOST/REPOSITORY names, which is
// asked through transport, or http.DefaultTransport where that is nil.
func Repository(name string, plainHTTP bool, credential auth.Credential, transport http.RoundTripper) (*remote.Repository, error) {
	r, err := remote.NewRepository(name)
	if err != nil {
		return nil, err
	}
	r.PlainHTTP = plainHTTP
	r.Client = &auth.Client{Client: &http.Client{Transport: transport}, Cache: auth.NewCache(), Credential: auth.StaticCredential(r.Reference.Registry, credential)}
	return r, nil
}

// OriginRepository returns the repository of the origin, which lies beside its admin API
// and is asked as that is: through the same transport, which knows whose certificates to
// trust, and below the same path, which a proxy before the origin may ask for.
func OriginRepository(adminURL, token string, transport http.RoundTripper) (*remote.Repository, error) {
	at, err := url.Parse(adminURL)
	if err != nil {
		return nil, fmt.Errorf("finding the origin's registry: %w", err)
	}
	if prefix := strings.TrimRight(at.Path, "/"); prefix != "" {
		transport = below{at.Host, prefix, cmp.Or(transport, http.DefaultTransport)}
	}
	r, err := Repository(at.Host+"/releases", at.Scheme == "http", auth.Credential{Username: "edge", Password: token}, transport)
	if err != nil {
		return nil, fmt.Errorf("finding the origin's registry: %w", err)
	}
	return r, nil
}

// below sends the requests to a registry below a path of its host: in the name of a repository
// there is no place for that.
type below struct {
	host, prefix string
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper. Places that the registry names may be below the path
// already, if the proxy changes them.
func (b below) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == b.host && !strings.HasPrefix(req.URL.Path, b.prefix+"/v2/") {
		sent := req.Clone(req.Context())
		sent.URL.Path, sent.URL.RawPath = b.prefix+req.URL.Path, ""
		req = sent
	}
	return b.RoundTripper.RoundTrip(req)
}

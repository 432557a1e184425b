package command

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/registry"
	"partneredge/edge/release"
	"partneredge/edge/release/releasetest"
)

// signer is an operator who packs, signs and pushes releases.
type signer struct {
	private minisign.PrivateKey
	keys    string // file with the public one
}

func newSigner(t *testing.T) signer {
	t.Helper()
	public, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := public.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	s := signer{private, filepath.Join(t.TempDir(), "release.pub")}
	if err := os.WriteFile(s.keys, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// ship packs the modules, with some of them replaced, signs the release and
// brings it to the origin. It returns the release's id and digest.
func (s signer) ship(t *testing.T, d *devProcess, version string, replaced map[string][]byte) (id, digest string) {
	t.Helper()
	built, _ := testFiles.get(t)
	dir := releasetest.Modules(t, built, replaced)
	layout, err := oci.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	packed, err := release.Pack(t.Context(), layout, dir, version)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := release.Sign(t.Context(), layout, string(packed.Digest), s.private); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(d.origin.AdminURL(), "http://")
	to, err := remote.NewRepository(host + "/" + registry.Repository)
	if err != nil {
		t.Fatal(err)
	}
	to.PlainHTTP = true
	to.Client = &auth.Client{Credential: auth.StaticCredential(host, auth.Credential{Username: "any", Password: d.origin.Token()})}
	if _, err := oras.ExtendedCopy(t.Context(), layout, version, to, version, oras.DefaultExtendedCopyOptions); err != nil {
		t.Fatal(err)
	}
	var made struct{ ID string }
	admin := &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()}
	if err := admin.Call(t.Context(), "POST", "/releases", map[string]string{"digest": string(packed.Digest)}, &made); err != nil {
		t.Fatal(err)
	}
	return made.ID, string(packed.Digest)
}

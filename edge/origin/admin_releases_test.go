package origin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aead.dev/minisign"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	ociremote "oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"partneredge/edge/origin/registry"
	"partneredge/edge/release"
	"partneredge/edge/wire"
	"partneredge/store"
)

// packer packs and signs releases.
type packer struct {
	*fixture
	*oci.Store
	public  minisign.PublicKey
	private minisign.PrivateKey
}

func newPacker(f *fixture) *packer {
	f.Helper()
	b := &packer{fixture: f, Store: layout(f)}
	var err error
	if b.public, b.private, err = minisign.GenerateKey(nil); err != nil {
		f.Fatal(err)
	}
	return b
}

func layout(f *fixture) *oci.Store {
	f.Helper()
	s, err := oci.New(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// pack packs a release whose gate is larger than a piece.
func (b *packer) pack(version string) ocispec.Descriptor {
	b.Helper()
	dir := b.TempDir()
	for name, size := range map[string]int{"gate": 3<<20 + 17, "agents": 1000} {
		wasm := "\x00asm\x01\x00\x00\x00" + strings.Repeat(version, size/len(version)+1)[:size]
		for file, text := range map[string]string{name + ".wasm": wasm, name + ".json": fmt.Sprintf(`{"name":%q}`, name)} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
	d, err := release.Pack(b.Context(), b.Store, dir, version)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func (b *packer) sign(d ocispec.Descriptor) {
	b.Helper()
	if _, err := release.Sign(b.Context(), b.Store, string(d.Digest), b.private); err != nil {
		b.Fatal(err)
	}
}

// repository is a client of the registry that others wrote.
func (f *fixture) repository(token string) *ociremote.Repository {
	f.Helper()
	host := strings.TrimPrefix(f.AdminURL(), "http://")
	r, err := ociremote.NewRepository(host + "/" + registry.Repository)
	if err != nil {
		f.Fatal(err)
	}
	r.PlainHTTP = true
	r.Client = &auth.Client{Credential: auth.StaticCredential(host, auth.Credential{Username: "any", Password: token})}
	return r
}

// push copies a release and its signatures to the registry.
func (b *packer) push(version string) {
	b.Helper()
	if _, err := oras.ExtendedCopy(b.Context(), b.Store, version, b.repository(b.Token()), version, oras.DefaultExtendedCopyOptions); err != nil {
		b.Fatal(err)
	}
}

// pushSigned has release 1.4.0 packed, signed and pushed, and returns the policy that trusts it.
func pushSigned(t *testing.T) (*packer, ocispec.Descriptor, release.Policy) {
	t.Helper()
	b := newPacker(newFixture(t))
	d := b.pack("1.4.0")
	b.sign(d)
	b.push("1.4.0")
	return b, d, release.Policy{Keys: []minisign.PublicKey{b.public}, Min: "1.0.0"}
}

// TestRegistry has a client that others wrote push a release and read it back.
func TestRegistry(t *testing.T) {
	t.Parallel()
	b, d, policy := pushSigned(t)
	f := b.fixture
	b.push("1.4.0") // again changes nothing

	_, viewer := f.token(store.RoleViewer)
	repository := f.repository(viewer)
	back := layout(f)
	if _, err := oras.ExtendedCopy(t.Context(), repository, "1.4.0", back, "1.4.0", oras.DefaultExtendedCopyOptions); err != nil {
		t.Fatal(err)
	}
	for what, src := range map[string]release.Source{
		"copied": release.OCI(back), "in place": release.OCI(repository), "in the database": registry.Source(f.config.DB),
	} {
		r, err := release.Open(t.Context(), src, string(d.Digest), policy)
		if err != nil || r.Version != "1.4.0" || len(r.Modules) != 2 || len(r.Modules[1].Wasm) != 3<<20+25 {
			t.Errorf("%s: %v", what, err)
		}
	}
	var tags []string
	if err := repository.Tags(t.Context(), "", func(some []string) error { tags = append(tags, some...); return nil }); err != nil || !slices.Equal(tags, []string{"1.4.0"}) {
		t.Errorf("tags %v, %v", tags, err)
	}
	var referrers []ocispec.Descriptor
	if err := repository.Referrers(t.Context(), d, release.SignatureType, func(some []ocispec.Descriptor) error {
		referrers = append(referrers, some...)
		return nil
	}); err != nil || len(referrers) != 1 {
		t.Errorf("referrers %v, %v", referrers, err)
	}
	// A viewer pulls, and does not push.
	text := []byte("text")
	err := repository.Blobs().Push(t.Context(), content.NewDescriptorFromBytes("text/plain", text), strings.NewReader(string(text)))
	if err == nil || !strings.Contains(err.Error(), "this needs the role operator") {
		t.Errorf("a viewer's push: %v", err)
	}
	if _, err := f.repository("wrong").Resolve(t.Context(), "1.4.0"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with a wrong token: %v", err)
	}
	if _, err := repository.Resolve(t.Context(), "9.9.9"); err == nil || !strings.Contains(err.Error(), errdef.ErrNotFound.Error()) {
		t.Errorf("resolving what is not there: %v", err)
	}
	// What was pushed is in the audit log, once.
	items := f.must(200, "GET", "/admin/v1/audit?target="+string(d.Digest), nil)["items"].([]any)
	if len(items) == 0 || items[0].(object)["action"] != "release.push" {
		t.Errorf("audit log %v", items)
	}
}

// TestSpoiltBlobIsPushedAgain: a client that asks for a blob which the disk has spoilt is told
// that there is none, pushes it, and has it back.
func TestSpoiltBlobIsPushedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	blobs := f.repository(f.Token()).Blobs()
	text := []byte("as it was pushed")
	d := content.NewDescriptorFromBytes("text/plain", text)
	push := func() {
		t.Helper()
		if err := blobs.Push(t.Context(), d, bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	push()
	f.exec(`UPDATE release_pieces SET content = ?`, []byte("as it is on disk"))
	if exists, err := blobs.Exists(t.Context(), d); err != nil || exists {
		t.Fatalf("a spoilt blob exists: %v, %v", exists, err)
	}
	push()
	if exists, err := blobs.Exists(t.Context(), d); err != nil || !exists {
		t.Errorf("one that was pushed again exists: %v, %v", exists, err)
	}
	back, err := content.FetchAll(t.Context(), blobs, d)
	if err != nil || !bytes.Equal(back, text) {
		t.Errorf("read %q, %v", back, err)
	}
}

// TestSpoiltReleaseIsPushedAgain: a release of which the disk has spoilt a module, its manifest or
// its signature is whole once it was pushed again.
func TestSpoiltReleaseIsPushedAgain(t *testing.T) {
	t.Parallel()
	b, d, policy := pushSigned(t)
	open := func() error {
		_, err := release.Open(t.Context(), registry.Source(b.config.DB), string(d.Digest), policy)
		return err
	}
	for what, spoil := range map[string]string{
		"a module":      `UPDATE release_pieces SET content = ? WHERE start > 0`,
		"its manifest":  `UPDATE release_manifests SET content = ? WHERE subject = ''`,
		"its signature": `UPDATE release_manifests SET content = ? WHERE subject <> ''`,
	} {
		b.exec(spoil, []byte("as it is on disk"))
		if err := open(); err == nil {
			t.Errorf("%s is spoilt, and the release opens", what)
		}
		b.push("1.4.0")
		if err := open(); err != nil {
			t.Errorf("%s was spoilt, and pushed again: %v", what, err)
		}
	}
}

// TestRegistryBelowPath has a proxy before the origin that serves it below a path: releases are
// pushed and read there, whether or not it changes the places that the registry names.
func TestRegistryBelowPath(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newPacker(f)
	origin, err := url.Parse(f.AdminURL())
	if err != nil {
		t.Fatal(err)
	}
	for i, changes := range []bool{false, true} {
		for j, prefix := range []string{"/edge/one", "/v2", "/edge/"} {
			version := fmt.Sprintf("1.%d.%d", i, j) // there is nothing of it yet
			b.sign(b.pack(version))
			bare := strings.TrimSuffix(prefix, "/")
			mux := http.NewServeMux()
			mux.Handle(bare+"/", http.StripPrefix(bare, &httputil.ReverseProxy{
				Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(origin) },
				ModifyResponse: func(r *http.Response) error {
					if at := r.Header.Get("Location"); changes && at != "" {
						r.Header.Set("Location", bare+at)
					}
					return nil
				},
			}))
			proxy := httptest.NewServer(mux)
			t.Cleanup(proxy.Close)
			to, err := release.OriginRepository(proxy.URL+prefix, b.Token(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := oras.ExtendedCopy(t.Context(), b.Store, version, to, version, oras.DefaultExtendedCopyOptions); err != nil {
				t.Errorf("pushed below %s: %v", prefix, err)
			}
			if _, err := oras.ExtendedCopy(t.Context(), to, version, layout(f), version, oras.DefaultExtendedCopyOptions); err != nil {
				t.Errorf("read below %s: %v", prefix, err)
			}
		}
	}
}

// raw sends a request to the registry, with the token of the file.
func (f *fixture) raw(method, path string, header http.Header, body string) (*http.Response, string) {
	f.Helper()
	all := http.Header{"Authorization": {"Bearer " + f.Token()}}
	maps.Copy(all, header)
	resp, text := f.exchange(method, path, all, []byte(body))
	return resp, string(text)
}

const repo = registry.Root + registry.Repository

// TestUploadInPieces pushes a blob chunk by chunk, out of order once, and reads
// parts of it.
func TestUploadInPieces(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	text := strings.Repeat("0123456789abcdef", 200_000) // 3.2 MB
	name := digest.FromString(text).String()
	resp, _ := f.raw("POST", repo+"/blobs/uploads/", nil, "")
	location := resp.Header.Get("Location")
	if resp.StatusCode != 202 || location == "" {
		t.Fatalf("begin: %s", resp.Status)
	}
	at := 0
	for _, size := range []int{1 << 20, 5, 2_000_000} {
		header := http.Header{"Content-Range": {fmt.Sprintf("%d-%d", at, at+size-1)}}
		if resp, body := f.raw("PATCH", location, header, text[at:at+size]); resp.StatusCode != 202 {
			t.Fatalf("piece at %d: %s %s", at, resp.Status, body)
		}
		if resp, body := f.raw("PATCH", location, header, text[at:at+size]); resp.StatusCode != 416 || !strings.Contains(body, "BLOB_UPLOAD_INVALID") {
			t.Errorf("the piece at %d again: %s %s", at, resp.Status, body)
		}
		at += size
	}
	if resp, _ := f.raw("GET", location, nil, ""); resp.StatusCode != 204 || resp.Header.Get("Range") != fmt.Sprintf("0-%d", at-1) {
		t.Errorf("how far: %s %v", resp.Status, resp.Header)
	}
	if resp, body := f.raw("PUT", location+"?digest="+name, nil, text[at:]); resp.StatusCode != 201 || resp.Header.Get("Docker-Content-Digest") != name {
		t.Fatalf("finish: %s %s", resp.Status, body)
	}
	if resp, body := f.raw("GET", repo+"/blobs/"+name, nil, ""); resp.StatusCode != 200 || body != text {
		t.Errorf("read back: %s, %d bytes", resp.Status, len(body))
	}
	if resp, _ := f.raw("HEAD", repo+"/blobs/"+name, nil, ""); resp.StatusCode != 200 || resp.ContentLength != int64(len(text)) {
		t.Errorf("head: %s %d", resp.Status, resp.ContentLength)
	}
	if resp, body := f.raw("GET", repo+"/blobs/"+name, http.Header{"Range": {"bytes=1048570-1048589"}}, ""); resp.StatusCode != 206 || body != text[1048570:1048590] {
		t.Errorf("part: %s %q", resp.Status, body)
	}
	// Whole in one request, and given up.
	if resp, body := f.raw("POST", repo+"/blobs/uploads/?digest="+digest.FromString("whole").String(), nil, "whole"); resp.StatusCode != 201 {
		t.Errorf("in one request: %s %s", resp.Status, body)
	}
	resp, _ = f.raw("POST", repo+"/blobs/uploads/", nil, "")
	location = resp.Header.Get("Location")
	for _, want := range []int{204, 404} {
		if resp, _ := f.raw("DELETE", location, nil, ""); resp.StatusCode != want {
			t.Errorf("given up: %s, want %d", resp.Status, want)
		}
	}
}

// TestRegistryRefuses what is not a release, in the API's own form.
func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newPacker(f)
	d := b.pack("1.0.0")
	b.sign(d)
	b.push("1.0.0")
	manifest, err := content.FetchAll(t.Context(), b.Store, d)
	if err != nil {
		t.Fatal(err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		t.Fatal(err)
	}
	changed := func(how func(*ocispec.Manifest)) string {
		c := m
		c.Layers = slices.Clone(m.Layers)
		how(&c)
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	nowhere := digest.FromString("nowhere")
	typed := http.Header{"Content-Type": {ocispec.MediaTypeImageManifest}}
	resp, _ := f.raw("POST", repo+"/blobs/uploads/", nil, "")
	upload := resp.Header.Get("Location")
	tests := []struct {
		method, path string
		header       http.Header
		body         string
		status       int
		code         string
	}{
		{"PUT", "/manifests/x", typed, "garbage", 400, "MANIFEST_INVALID"},
		{"PUT", "/manifests/x", typed, "{}", 400, "MANIFEST_INVALID"},
		{"PUT", "/manifests/x", typed, changed(func(m *ocispec.Manifest) { m.ArtifactType = "application/vnd.example" }), 400, "MANIFEST_INVALID"},
		{"PUT", "/manifests/x", typed, changed(func(m *ocispec.Manifest) { m.Layers[0].Digest = nowhere }), 404, "MANIFEST_BLOB_UNKNOWN"},
		{"PUT", "/manifests/x", typed, changed(func(m *ocispec.Manifest) { m.Layers[0].Size++ }), 400, "SIZE_INVALID"},
		{"PUT", "/manifests/x", nil, string(manifest), 400, "MANIFEST_INVALID"},
		{"PUT", "/manifests/" + nowhere.String(), typed, string(manifest), 400, "DIGEST_INVALID"},
		{"PUT", "/manifests/-x", typed, string(manifest), 400, "TAG_INVALID"},
		{"PUT", "/manifests/x", typed, strings.Repeat(" ", release.MaxManifest+1), 413, "SIZE_INVALID"},
		{"GET", "/manifests/2.0.0", nil, "", 404, "MANIFEST_UNKNOWN"},
		{"GET", "/blobs/" + nowhere.String(), nil, "", 404, "BLOB_UNKNOWN"},
		{"GET", "/referrers/x", nil, "", 400, "DIGEST_INVALID"},
		{"GET", "/tags/list?n=x", nil, "", 400, "UNSUPPORTED"},
		{"POST", "/blobs/uploads/?digest=" + nowhere.String(), nil, "somewhere", 400, "DIGEST_INVALID"},
		{"PUT", "/blobs/uploads/upl_none?digest=" + nowhere.String(), nil, "x", 404, "BLOB_UPLOAD_UNKNOWN"},
		{"PUT", upload[len(repo):], nil, "x", 400, "DIGEST_INVALID"},
		{"PATCH", upload[len(repo):], http.Header{"Content-Range": {"all"}}, "x", 400, "BLOB_UPLOAD_INVALID"},
		{"PATCH", "/blobs/uploads/upl_none", nil, "x", 404, "BLOB_UPLOAD_UNKNOWN"},
		{"DELETE", "/manifests/1.0.0", nil, "", 405, "UNSUPPORTED"},
		{"GET", "/../library/tags/list", nil, "", 404, "NAME_INVALID"},
		{"GET", "x/tags/list", nil, "", 404, "NAME_UNKNOWN"},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path[:min(len(tt.path), 30)]+" "+tt.code, func(t *testing.T) {
			resp, body := f.raw(tt.method, repo+tt.path, tt.header, tt.body)
			var refused struct {
				Errors []struct{ Code, Message string }
			}
			if err := json.Unmarshal([]byte(body), &refused); err != nil || len(refused.Errors) != 1 || refused.Errors[0].Code != tt.code || refused.Errors[0].Message == "" || resp.StatusCode != tt.status {
				t.Errorf("answered %s %s, want %d %s", resp.Status, body, tt.status, tt.code)
			}
		})
	}
	if resp, body := f.raw("GET", "/v2/", nil, ""); resp.StatusCode != 200 || resp.Header.Get("Docker-Distribution-Api-Version") != "registry/2.0" {
		t.Errorf("/v2/ answered %s %s", resp.Status, body)
	}
	for i := range 3 { // a tag more, and pages of them
		if resp, body := f.raw("PUT", repo+fmt.Sprintf("/manifests/t%d", i), typed, string(manifest)); resp.StatusCode != 201 {
			t.Errorf("tag: %s %s", resp.Status, body)
		}
	}
	resp, body := f.raw("GET", repo+"/tags/list?n=2", nil, "")
	if !strings.Contains(body, `["1.0.0","t0"]`) || !strings.Contains(resp.Header.Get("Link"), "last=t0") {
		t.Errorf("first page %s, Link %q", body, resp.Header.Get("Link"))
	}
}

func adminReleases(f *fixture) {
	const releases = "/admin/v1/releases"
	b := newPacker(f)
	d := b.pack("1.4.0")
	f.mustRefuse(404, "not_found", "POST", releases, object{"digest": d.Digest})
	b.push("1.4.0")
	f.mustRefuse(400, "unsigned", "POST", releases, object{"digest": d.Digest})
	b.sign(d)
	b.push("1.4.0")
	made := f.must(201, "POST", releases, object{"digest": d.Digest})
	if made["version"] != "1.4.0" || made["digest"] != string(d.Digest) || len(made["modules"].([]any)) != 2 {
		f.Errorf("made %v", made)
	}
	signer := made["signers"].([]any)[0].(object)
	if signer["key_id"] != release.KeyID(b.public.ID()) {
		f.Errorf("signer %v", signer)
	}
	id := made["id"].(string)
	if again := f.must(200, "POST", releases, object{"reference": "1.4.0"}); again["id"] != id {
		f.Errorf("again: %v", again)
	}
	if shown := f.must(200, "GET", releases+"/"+id, nil); shown["digest"] != string(d.Digest) {
		f.Errorf("shown %v", shown)
	}
	f.mustRefuse(404, "not_found", "GET", releases+"/rel_none", nil)
	f.mustRefuse(404, "not_found", "POST", releases, object{"reference": "9.9.9"})
	f.mustRefuse(400, "digest_required", "POST", releases, object{})
	f.mustRefuse(400, "digest_required", "POST", releases, object{"digest": d.Digest, "reference": "1.4.0"})
	f.mustRefuse(400, "digest_invalid", "POST", releases, object{"digest": "sha256:0"})

	// Another who signs is shown; another release of that version is not taken.
	other := newPacker(f)
	other.Store = b.Store
	other.sign(d)
	b.push("1.4.0")
	if again := f.must(200, "POST", releases, object{"reference": "1.4.0"}); len(again["signers"].([]any)) != 2 {
		f.Errorf("signed twice: %v", again)
	}
	clash := newPacker(f)
	dir := f.TempDir()
	for file, text := range map[string]string{"gate.wasm": "\x00asm\x01\x00\x00\x00", "gate.json": `{"name":"gate"}`} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	e, err := release.Pack(f.Context(), clash.Store, dir, "1.4.0")
	if err != nil {
		f.Fatal(err)
	}
	clash.sign(e)
	clash.push("1.4.0")
	if status, v := f.call("POST", releases, object{"digest": e.Digest}); status != 409 {
		f.Errorf("the version again: %d %v", status, v)
	}

	if page := f.must(200, "GET", releases+"?limit=1", nil); len(page["items"].([]any)) != 1 {
		f.Errorf("list %v", page)
	}
	f.mustRefuse(400, "limit_not_integer", "GET", releases+"?limit=x", nil)
	items := f.must(200, "GET", "/admin/v1/audit?target="+id, nil)["items"].([]any)
	if len(items) != 2 || items[1].(object)["action"] != "release.create" || items[0].(object)["action"] != "release.sign" {
		f.Errorf("audit log %v", items)
	}
}

// TestNodesReadBlobs: what a node asks for part by part is what was pushed.
func TestNodesReadBlobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newPacker(f)
	d := b.pack("1.4.0")
	b.sign(d)
	b.push("1.4.0")
	m := f.enrol("berlin")
	read := func(d ocispec.Descriptor) string {
		var text []byte
		for {
			reply := ask[wire.BlobReply](m, wire.VerbBlob, wire.BlobRequest{Head: head, Digest: string(d.Digest), Offset: int64(len(text))})
			if reply.Failure != "" || reply.Size != d.Size || len(reply.Data) > wire.MaxBlobChunk {
				t.Fatalf("at %d: failure %q, %d bytes of %d", len(text), reply.Failure, len(reply.Data), reply.Size)
			}
			if len(reply.Data) == 0 {
				return string(text)
			}
			text = append(text, reply.Data...)
		}
	}
	for _, part := range append([]ocispec.Descriptor{d}, parts(t.Context(), t, b.Store, d)...) {
		want, err := content.FetchAll(t.Context(), b.Store, part)
		if err != nil {
			t.Fatal(err)
		}
		if read(part) != string(want) {
			t.Errorf("%s is something else", part.MediaType)
		}
	}
	signatures := ask[wire.SignaturesReply](m, wire.VerbSignatures, wire.SignaturesRequest{Head: head, Digest: string(d.Digest)})
	if len(signatures.Signatures) != 1 || !strings.Contains(string(signatures.Signatures[0]), "trusted comment: partneredge release 1.4.0") {
		t.Errorf("signatures %q", signatures.Signatures)
	}
	for request, want := range map[wire.BlobRequest]wire.Failure{
		{Digest: digest.FromString("none").String()}: wire.NotFound, {Digest: "sha256:0"}: wire.Invalid, {Digest: string(d.Digest), Offset: -1}: wire.Invalid,
	} {
		request.Head = head
		if reply := ask[wire.BlobReply](m, wire.VerbBlob, request); reply.Failure != want || len(reply.Data) != 0 {
			t.Errorf("%+v answered %q", request, reply.Failure)
		}
	}
	if reply := ask[wire.SignaturesReply](m, wire.VerbSignatures, wire.SignaturesRequest{Head: head, Digest: "x"}); reply.Failure != wire.Invalid {
		t.Errorf("signatures of no digest: %q", reply.Failure)
	}
}

func parts(ctx context.Context, t *testing.T, from content.Fetcher, d ocispec.Descriptor) []ocispec.Descriptor {
	t.Helper()
	all, err := content.Successors(ctx, from, d)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

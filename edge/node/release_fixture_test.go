package node

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"partneredge/edge/release"
	"partneredge/edge/release/releasetest"
	"partneredge/edge/wire"
)

// operator signs releases.
type operator struct {
	public  minisign.PublicKey
	private minisign.PrivateKey
}

func newOperator(t *testing.T) operator {
	t.Helper()
	public, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return operator{public, private}
}

// ship packs the built modules, with some of them replaced, and has the test's
// origin hold them; signed by each of by. It returns the digest.
func (o *testOrigin) ship(version string, replaced map[string][]byte, by ...operator) string {
	o.t.Helper()
	dir := releasetest.Modules(o.t, must(builtModules())(o.t), replaced)
	packed := must(release.Pack(o.t.Context(), o.releases, dir, version))(o.t)
	for _, one := range by {
		must(release.Sign(o.t.Context(), o.releases, string(packed.Digest), one.private))(o.t)
	}
	return string(packed.Digest)
}

// chunk bounds the bytes of one answer.
const chunk = 256 << 10

func (o *testOrigin) blob(req wire.BlobRequest) (wire.Message, wire.Failure) {
	f, err := os.Open(filepath.Join(o.layout, "blobs", "sha256", strings.TrimPrefix(filepath.Base(req.Digest), "sha256:")))
	if err != nil {
		return nil, wire.NotFound
	}
	defer f.Close()
	reply := &wire.BlobReply{Size: must(f.Stat())(o.t).Size()}
	reply.Data = make([]byte, min(chunk, max(0, reply.Size-req.Offset)))
	if _, err := f.ReadAt(reply.Data, req.Offset); err != nil {
		o.t.Error(err)
	}
	if o.spoil != nil {
		return reply, o.spoil(&req, reply)
	}
	return reply, ""
}

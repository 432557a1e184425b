package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestManifestBounds changes a manifest to what is just allowed, and to the next that
// is not.
func TestManifestBounds(t *testing.T) {
	text, _ := packed(t)
	// whole has four modules that almost fill a release, and the first one's manifest
	// fills it. The digits of the sizes count too, so it takes more than one step.
	whole := func(m *ocispec.Manifest, extra int64) {
		m.Layers = many(m.Layers, MaxSize/MaxWasm)
		for i := 0; i < len(m.Layers); i += 2 {
			m.Layers[i].Size = MaxWasm - 10_000
		}
		for range 3 {
			m.Layers[1].Size += MaxSize + extra - total(m, encoded(t, *m))
		}
	}
	for name, test := range map[string]struct {
		change func(*ocispec.Manifest)
		fits   bool
	}{
		"one module":             {func(m *ocispec.Manifest) { m.Layers = m.Layers[:2] }, true},
		"as many as may be":      {func(m *ocispec.Manifest) { m.Layers = many(m.Layers, MaxModules) }, true},
		"one more":               {func(m *ocispec.Manifest) { m.Layers = many(m.Layers, MaxModules+1) }, false},
		"the largest module":     {func(m *ocispec.Manifest) { m.Layers[0].Size = MaxWasm }, true},
		"the largest manifest":   {func(m *ocispec.Manifest) { m.Layers[1].Size = MaxManifest }, true},
		"the largest config":     {func(m *ocispec.Manifest) { m.Config.Size = MaxManifest }, true},
		"a byte more of config":  {func(m *ocispec.Manifest) { m.Config.Size = MaxManifest + 1 }, false},
		"the largest release":    {func(m *ocispec.Manifest) { whole(m, 0) }, true},
		"a byte more of release": {func(m *ocispec.Manifest) { whole(m, 1) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var m ocispec.Manifest
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			test.change(&m)
			if _, err := readManifest(encoded(t, m)); (err == nil) != test.fits {
				t.Errorf("%v, want it read: %t", err, test.fits)
			}
		})
	}
}

func encoded(t *testing.T, m ocispec.Manifest) []byte {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// total returns the size of a release.
func total(m *ocispec.Manifest, text []byte) int64 {
	sum := int64(len(text)) + m.Config.Size
	for _, d := range m.Layers {
		sum += d.Size
	}
	return sum
}

// TestModulesBounds has modules that are just allowed, and the next that are not.
func TestModulesBounds(t *testing.T) {
	wasm := make([]byte, MaxWasm+1) // most of it is never touched
	copy(wasm, "\x00asm\x01\x00\x00\x00")
	modules := func(n, size int) (all []Module) {
		for i := range n {
			name := fmt.Sprintf("m%02d", i)
			all = append(all, Module{Name: name, Wasm: wasm[:size], Manifest: fmt.Appendf(nil, `{"name":%q}`, name)})
		}
		return all
	}
	manifest := len(modules(1, 8)[0].Manifest)
	padded := func(size int) []Module {
		all := modules(1, 8)
		all[0].Manifest = append(all[0].Manifest, strings.Repeat(" ", size-manifest)...)
		return all
	}
	whole := func(extra int) []Module {
		all := modules(MaxSize/MaxWasm, MaxWasm-manifest)
		all[0].Wasm = wasm[:MaxWasm-manifest+extra]
		return all
	}
	for name, test := range map[string]struct {
		modules []Module
		fits    bool
	}{
		"none":                    {nil, false},
		"one":                     {modules(1, 8), true},
		"as many as may be":       {modules(MaxModules, 8), true},
		"one more":                {modules(MaxModules+1, 8), false},
		"the largest":             {modules(1, MaxWasm), true},
		"a byte more":             {modules(1, MaxWasm+1), false},
		"the largest manifest":    {padded(MaxManifest), true},
		"a byte more of manifest": {padded(MaxManifest + 1), false},
		"as much as may be":       {whole(0), true},
		"a byte more in all":      {whole(1), false},
	} {
		if err := CheckModules(test.modules); (err == nil) != test.fits || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want them taken: %t", name, err, test.fits)
		}
	}
	if _, err := assemble(t.Context(), whole(0), "1.0.0"); !errors.Is(err, ErrMalformed) {
		t.Errorf("a release without room for its own manifest is packed: %v", err)
	}
}

// withoutSignatures is a source that cannot read signatures.
type withoutSignatures struct{ Source }

func (withoutSignatures) Signatures(context.Context, string) ([][]byte, error) { return nil, errFull }

// TestSourceFails has a source that fails, or has nothing.
func TestSourceFails(t *testing.T) {
	s, key := newLayout(t), newPair(t)
	name := s.pack("1.4.0")
	s.sign(name, key)
	if r, err := Open(t.Context(), withoutSignatures{OCI(s)}, name, trusting(key)); r != nil || !errors.Is(err, errFull) {
		t.Errorf("no signatures can be read: %v, %v", r, err)
	}
	none := "sha256:" + strings.Repeat("5e", 32)
	for what, read := range map[string]func() (*Release, error){
		"opened":    func() (*Release, error) { return Open(t.Context(), OCI(s), none, trusting(key)) },
		"inspected": func() (*Release, error) { return Inspect(t.Context(), OCI(s), none) },
		"outlined":  func() (*Release, error) { return Outline(t.Context(), OCI(s), none) },
	} {
		if r, err := read(); r != nil || !errors.Is(err, ErrNotFound) {
			t.Errorf("%s what is not there: %v, %v", what, r, err)
		}
	}
	if r, err := Outline(t.Context(), OCI(s), name); err != nil || len(r.Signers) != 1 || r.Signers[0].KeyID != KeyID(key.public.ID()) {
		t.Errorf("outlined %+v, %v", r, err)
	}
}

// TestSignersSignedThisRelease attaches, beside a valid signature, one by another
// trusted key that says something else. Its key has not signed the release.
func TestSignersSignedThisRelease(t *testing.T) {
	s, key, other := newLayout(t), newPair(t), newPair(t)
	name := s.pack("1.4.0")
	valid := signatureSaying(s, name, key, trustedComment("1.4.0", name))
	for _, comment := range []string{"", "file:manifest.json", trustedComment("latest", name), trustedComment("1.4.0", "")} {
		both := [][]byte{signatureSaying(s, name, other, comment), valid}
		r, err := Open(t.Context(), manySignatures{OCI(s), both}, name, trusting(key, other))
		if err != nil || len(r.Signers) != 1 || r.Signers[0].KeyID != KeyID(key.public.ID()) {
			t.Errorf("beside one that says %q: %+v, %v", comment, r, err)
		}
	}
}

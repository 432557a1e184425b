package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// TestCraftedReleases builds releases whose digests are all right, and which break
// one rule each: whoever can push content can make such ones.
func TestCraftedReleases(t *testing.T) {
	blob := func(s *layout, mediaType, text string) ocispec.Descriptor {
		d := content.NewDescriptorFromBytes(mediaType, []byte(text))
		if err := s.Push(s.Context(), d, strings.NewReader(text)); err != nil {
			s.Fatal(err)
		}
		return d
	}
	for name, craft := range map[string]func(s *layout, m *ocispec.Manifest){
		"a module that is not wasm":   func(s *layout, m *ocispec.Manifest) { m.Layers[0] = blob(s, WasmType, "#!/bin/sh") },
		"another module's manifest":   func(s *layout, m *ocispec.Manifest) { m.Layers[1] = m.Layers[3] },
		"a manifest that is not JSON": func(s *layout, m *ocispec.Manifest) { m.Layers[1] = blob(s, ModuleManifestType, "{") },
		"a config of fewer modules": func(s *layout, m *ocispec.Manifest) {
			m.Config = blob(s, ConfigType, `{"version":"1.4.0","modules":["agents"]}`)
		},
		"unsorted modules": func(s *layout, m *ocispec.Manifest) {
			m.Config = blob(s, ConfigType, `{"version":"1.4.0","modules":["leads","gate","agents"]}`)
		},
		"a module twice": func(s *layout, m *ocispec.Manifest) {
			m.Config = blob(s, ConfigType, `{"version":"1.4.0","modules":["agents","agents","leads"]}`)
		},
		"no version": func(s *layout, m *ocispec.Manifest) {
			m.Config = blob(s, ConfigType, `{"modules":["agents","gate","leads"]}`)
		},
		"half a pair":          func(_ *layout, m *ocispec.Manifest) { m.Layers = m.Layers[:5] },
		"no layers":            func(_ *layout, m *ocispec.Manifest) { m.Layers = nil },
		"too many layers":      func(_ *layout, m *ocispec.Manifest) { m.Layers = make([]ocispec.Descriptor, 2*MaxModules+2) },
		"another schema":       func(_ *layout, m *ocispec.Manifest) { m.SchemaVersion = 1 },
		"another media type":   func(_ *layout, m *ocispec.Manifest) { m.MediaType = ocispec.MediaTypeImageIndex },
		"another artifact":     func(_ *layout, m *ocispec.Manifest) { m.ArtifactType = SignatureType },
		"another config":       func(_ *layout, m *ocispec.Manifest) { m.Config.MediaType = "application/json" },
		"a subject":            func(_ *layout, m *ocispec.Manifest) { m.Subject = &m.Layers[0] },
		"wasm of another type": func(_ *layout, m *ocispec.Manifest) { m.Layers[0].MediaType = ModuleManifestType },
		"content in the text":  func(_ *layout, m *ocispec.Manifest) { m.Layers[0].Data = []byte("x") },
		"a URL":                func(_ *layout, m *ocispec.Manifest) { m.Layers[0].URLs = []string{"https://example.com"} },
		"a blob of no size":    func(_ *layout, m *ocispec.Manifest) { m.Layers[0].Size = 0 },
		"a negative size":      func(_ *layout, m *ocispec.Manifest) { m.Layers[0].Size = -1 },
		"wasm too large":       func(_ *layout, m *ocispec.Manifest) { m.Layers[0].Size = MaxWasm + 1 },
		"a config too large":   func(_ *layout, m *ocispec.Manifest) { m.Config.Size = MaxManifest + 1 },
		"a manifest too large": func(_ *layout, m *ocispec.Manifest) { m.Layers[1].Size = MaxManifest + 1 },
		"another digest": func(_ *layout, m *ocispec.Manifest) {
			m.Layers[0].Digest = "sha512:" + digest.Digest(strings.Repeat("0", 128))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLayout(t)
			text, err := os.ReadFile(s.file(s.pack("1.4.0")))
			if err != nil {
				t.Fatal(err)
			}
			var m ocispec.Manifest
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			craft(s, &m)
			if text, err = json.Marshal(m); err != nil {
				t.Fatal(err)
			}
			d := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, text)
			r, err := Inspect(t.Context(), crafted{OCI(s), text}, string(d.Digest))
			if wants(t, err, ErrMalformed); r != nil {
				t.Errorf("inspected %v", r)
			}
		})
	}
}

// TestCraftedIndex opens a layout whose index gives a manifest a size below zero.
func TestCraftedIndex(t *testing.T) {
	s := newLayout(t)
	name := s.pack("1.4.0")
	index, err := json.Marshal(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		Manifests: []ocispec.Descriptor{{MediaType: "application/octet-stream", Digest: digest.Digest(name), Size: -5000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(s.path, ocispec.ImageIndexFile), string(index))
	s.reopen()
	_, err = Inspect(t.Context(), OCI(s), name)
	wants(t, err, ErrMalformed)
}

// crafted is a source with a manifest of its own.
type crafted struct {
	Source
	manifest []byte
}

func (c crafted) Manifest(context.Context, string) ([]byte, error)     { return c.manifest, nil }
func (c crafted) Signatures(context.Context, string) ([][]byte, error) { return nil, nil }

// brokenStore refuses what is pushed.
type brokenStore struct{ *layout }

var errFull = errors.New("no space left")

func (s brokenStore) Push(context.Context, ocispec.Descriptor, io.Reader) error {
	return errFull
}

// TestSignFails: a release that is not there, or whose signature cannot be kept,
// is not reported as signed.
func TestSignFails(t *testing.T) {
	key := newPair(t)
	s := newLayout(t)
	name := s.pack("1.4.0")
	if _, err := Sign(t.Context(), s, "sha256:"+strings.Repeat("5e", 32), key.private); !errors.Is(err, ErrNotFound) {
		t.Errorf("a release that is not there: %v", err)
	}
	if _, err := Sign(t.Context(), brokenStore{s}, name, key.private); !errors.Is(err, errFull) {
		t.Errorf("a store that is full: %v", err)
	}
	_, err := Open(t.Context(), OCI(s), name, trusting(key))
	wants(t, err, ErrUnsigned)
}

func TestLongestVersion(t *testing.T) {
	longest := "1.4.0-" + strings.Repeat("a", 58) // 64 characters
	if err := CheckVersion(longest); err != nil {
		t.Error(err)
	}
	wants(t, CheckVersion(longest+"a"), ErrMalformed)
}

// TestLongestSignature reads a signature that is as long as one may be.
func TestLongestSignature(t *testing.T) {
	s, key := newLayout(t), newPair(t)
	name := s.pack("1.4.0")
	text := signatureSaying(s, name, key, trustedComment("1.4.0", name))
	begin := bytes.IndexByte(text, '\n')
	for length, want := range map[int]error{MaxSignature: nil, MaxSignature + 1: ErrTampered} {
		long := append(append(bytes.Clone(text[:begin]), bytes.Repeat([]byte("-"), length-len(text))...), text[begin:]...)
		_, err := Open(t.Context(), manySignatures{OCI(s), [][]byte{long}}, name, trusting(key))
		wants(t, err, want)
	}
}

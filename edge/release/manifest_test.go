package release

import (
	"encoding/json"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// packed returns the manifest and the config of a release.
func packed(t *testing.T) (manifest, config []byte) {
	t.Helper()
	s := newLayout(t)
	r, err := Inspect(t.Context(), OCI(s), s.pack("1.4.0"))
	if err != nil {
		t.Fatal(err)
	}
	return r.manifest, r.config.bytes
}

func TestReadManifest(t *testing.T) {
	text, _ := packed(t)
	if _, err := readManifest(text); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*ocispec.Manifest){
		"schema":           func(m *ocispec.Manifest) { m.SchemaVersion = 1 },
		"media type":       func(m *ocispec.Manifest) { m.MediaType = ocispec.MediaTypeImageIndex },
		"artifact type":    func(m *ocispec.Manifest) { m.ArtifactType = SignatureType },
		"config type":      func(m *ocispec.Manifest) { m.Config.MediaType = ocispec.MediaTypeEmptyJSON },
		"subject":          func(m *ocispec.Manifest) { m.Subject = &m.Config },
		"no layers":        func(m *ocispec.Manifest) { m.Layers = nil },
		"odd layers":       func(m *ocispec.Manifest) { m.Layers = m.Layers[:3] },
		"too many modules": func(m *ocispec.Manifest) { m.Layers = many(m.Layers, MaxModules+1) },
		"order of layers":  func(m *ocispec.Manifest) { m.Layers[0], m.Layers[1] = m.Layers[1], m.Layers[0] },
		"large module":     func(m *ocispec.Manifest) { m.Layers[0].Size = MaxWasm + 1 },
		"large manifest":   func(m *ocispec.Manifest) { m.Layers[1].Size = MaxManifest + 1 },
		"negative size":    func(m *ocispec.Manifest) { m.Layers[0].Size = -1 },
		"all too large": func(m *ocispec.Manifest) {
			m.Layers = many(m.Layers, 5)
			for i := range 5 {
				m.Layers[2*i].Size = MaxWasm
			}
		},
		"digest of another kind": func(m *ocispec.Manifest) { m.Config.Digest = "sha512:" + m.Config.Digest[7:] },
		"no digest":              func(m *ocispec.Manifest) { m.Layers[0].Digest = "../../etc/passwd" },
		"embedded data":          func(m *ocispec.Manifest) { m.Layers[0].Data = []byte("x") },
		"elsewhere":              func(m *ocispec.Manifest) { m.Layers[0].URLs = []string{"https://example.com/"} },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			var m ocispec.Manifest
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			change(&m)
			changed, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			_, err = readManifest(changed)
			wants(t, err, ErrMalformed)
		})
	}
	for _, bad := range []string{"", "{}", "null", "[]", string(text) + "{}", strings.Replace(string(text), "{", `{"x":1,`, 1), strings.Repeat(" ", MaxManifest) + string(text)} {
		_, err := readManifest([]byte(bad))
		wants(t, err, ErrMalformed)
	}
}

// many repeats the first module's layers.
func many(layers []ocispec.Descriptor, modules int) (all []ocispec.Descriptor) {
	for range modules {
		all = append(all, layers[:2]...)
	}
	return all
}

func TestReadConfig(t *testing.T) {
	for text, want := range map[string]error{
		`{"version":"1.0.0","modules":["agents","gate"]}`:         nil,
		`{"version":"1.0.0","modules":["gate","agents"]}`:         ErrMalformed,
		`{"version":"1.0.0","modules":["gate","gate"]}`:           ErrMalformed,
		`{"version":"1.0.0","modules":["gate"]}`:                  ErrMalformed,
		`{"version":"1.0.0","modules":["a","../gate"]}`:           ErrMalformed,
		`{"version":"1.0","modules":["agents","gate"]}`:           ErrMalformed,
		`{"version":"1.0.0","modules":["agents","gate"],"x":0}`:   ErrMalformed,
		`{"version":"1.0.0","modules":["agents","gate"]} trailer`: ErrMalformed,
	} {
		_, err := readConfig([]byte(text), 2)
		wants(t, err, want)
	}
}

func FuzzReadManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"` + ArtifactType + `","config":{"mediaType":"` + ConfigType + `","digest":"sha256:` + strings.Repeat("0", 64) + `","size":2},"layers":[]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := readManifest(text)
		if err != nil {
			return
		}
		var sum int64
		for _, d := range append(m.Layers, m.Config) {
			if sum += d.Size; d.Size <= 0 || d.Size > MaxWasm || CheckDigest(string(d.Digest)) != nil {
				t.Fatalf("blob %v", d)
			}
		}
		if sum > MaxSize || len(m.Layers) > 2*MaxModules {
			t.Fatalf("%d bytes in %d layers", sum, len(m.Layers))
		}
	})
}

func FuzzReadConfig(f *testing.F) {
	f.Add([]byte(`{"version":"1.0.0","modules":["agents","gate"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := readConfig(text, 2)
		if err == nil && (len(c.Modules) != 2 || c.Modules[0] >= c.Modules[1] || CheckVersion(c.Version) != nil) {
			t.Fatalf("took %+v", c)
		}
	})
}

func FuzzDescribe(f *testing.F) {
	zeros := strings.Repeat("0", 64)
	f.Add([]byte(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"` + SignatureType + `","config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"` + string(ocispec.DescriptorEmptyJSON.Digest) + `","size":2},"layers":[{"mediaType":"` + SignatureType + `","digest":"sha256:` + zeros + `","size":9}],"subject":{"digest":"sha256:` + zeros + `"}}`))
	f.Add([]byte(`{"artifactType":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := Describe(text)
		if err != nil {
			return
		}
		if a.Type != ArtifactType && a.Type != SignatureType || (a.Type == SignatureType) != (a.Subject != "") {
			t.Fatalf("took %+v", a)
		}
		for _, d := range a.Blobs {
			if d.Size <= 0 || d.Size > MaxWasm || CheckDigest(string(d.Digest)) != nil {
				t.Fatalf("blob %v", d)
			}
		}
	})
}

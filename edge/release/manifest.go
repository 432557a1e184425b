package release

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// config is the config blob. Modules are sorted by name.
type config struct {
	Version string   `json:"version"`
	Modules []string `json:"modules"`
}

// moduleName is the form of a module's name, which becomes part of file names.
var moduleName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// IsModuleName reports whether a module may have this name: 1 to 40 of a to z, 0 to 9
// and dashes, a letter first.
func IsModuleName(name string) bool { return moduleName.MatchString(name) }

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// parseStrict parses JSON and refuses unknown fields and anything after it.
func parseStrict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

// readManifest parses the OCI manifest of a release and checks everything that does
// not need its blobs.
func readManifest(text []byte) (m ocispec.Manifest, err error) {
	if len(text) > MaxManifest {
		return m, malformed("a manifest of %d bytes", len(text))
	}
	if err := parseStrict(text, &m); err != nil {
		return m, malformed("the manifest: %v", err)
	}
	switch {
	case m.SchemaVersion != 2 || m.MediaType != ocispec.MediaTypeImageManifest:
		return m, malformed("the manifest is not OCI's")
	case m.ArtifactType != ArtifactType || m.Config.MediaType != ConfigType || m.Subject != nil:
		return m, malformed("an artifact of type %q", m.ArtifactType)
	case len(m.Layers) < 2 || len(m.Layers)%2 != 0 || len(m.Layers) > 2*MaxModules:
		return m, malformed("%d layers", len(m.Layers))
	}
	sum := int64(len(text))
	for i, d := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		mediaType, maxSize := WasmType, int64(MaxWasm)
		switch {
		case i == 0:
			mediaType, maxSize = ConfigType, MaxManifest
		case i%2 == 0:
			mediaType, maxSize = ModuleManifestType, MaxManifest
		}
		switch {
		case d.MediaType != mediaType:
			return m, malformed("blob %d is of type %q", i, d.MediaType)
		case CheckDigest(string(d.Digest)) != nil || len(d.Data) > 0 || len(d.URLs) > 0:
			return m, malformed("blob %d is not named by its SHA-256 alone", i)
		case d.Size <= 0 || d.Size > maxSize:
			return m, malformed("blob %d has %d bytes", i, d.Size)
		}
		if sum += d.Size; sum > MaxSize {
			return m, malformed("more than %d bytes", MaxSize)
		}
	}
	return m, nil
}

// readConfig parses the config blob of a release with this number of modules.
func readConfig(text []byte, modules int) (c config, err error) {
	if err := parseStrict(text, &c); err != nil {
		return c, malformed("the config: %v", err)
	}
	if err := CheckVersion(c.Version); err != nil {
		return c, err
	}
	if len(c.Modules) != modules {
		return c, malformed("the config names %d modules, the manifest %d", len(c.Modules), modules)
	}
	return c, checkNames(c.Modules)
}

// checkNames returns an error unless names are sorted and unique.
func checkNames(names []string) error {
	for _, name := range names {
		if !IsModuleName(name) {
			return malformed("%q names no module", name)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		return malformed("the modules are not sorted, each there once")
	}
	return nil
}

// CheckModules returns an error unless modules, sorted by name, could be those of a
// release: their number, names, sizes and format. ReadManifests judges what they say.
func CheckModules(modules []Module) error {
	if len(modules) == 0 || len(modules) > MaxModules {
		return malformed("%d modules, want 1 to %d", len(modules), MaxModules)
	}
	var names []string
	sum := int64(0)
	for _, m := range modules {
		if len(m.Wasm) > MaxWasm {
			return malformed("module %s has %d bytes, more than %d", m.Name, len(m.Wasm), MaxWasm)
		}
		if len(m.Manifest) > MaxManifest {
			return malformed("the manifest of module %s has %d bytes, more than %d", m.Name, len(m.Manifest), MaxManifest)
		}
		if err := checkModule(m.Name, m.Wasm, m.Manifest); err != nil {
			return err
		}
		names = append(names, m.Name)
		sum += int64(len(m.Wasm) + len(m.Manifest))
	}
	if sum > MaxSize {
		return malformed("the modules have %d bytes, more than %d", sum, MaxSize)
	}
	return checkNames(names)
}

// checkModule checks that a module's own manifest has its name. The host checks the
// rest of it.
func checkModule(name string, wasm, manifest []byte) error {
	if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
		return malformed("module %s is not WebAssembly 1", name)
	}
	var described struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(manifest, &described); err != nil {
		return malformed("the manifest of module %s: %v", name, err)
	}
	if described.Name != name {
		return malformed("the manifest of module %s is that of %q", name, described.Name)
	}
	return nil
}

// CheckDigest returns an error unless s is sha256: and 64 hexadecimal digits, the
// only form of the digests of releases and their blobs.
func CheckDigest(s string) error {
	d := digest.Digest(s)
	if d.Validate() != nil || d.Algorithm() != digest.SHA256 {
		return malformed("%.80q is no SHA-256 digest", s)
	}
	return nil
}

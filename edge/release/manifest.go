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

// moduleName is what may name a module: it becomes part of file names.
var moduleName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// strictly reads JSON of which every field is known, and nothing follows.
func strictly(text []byte, into any) error {
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

// readManifest reads the OCI manifest of a release and judges all that can be
// without its parts.
func readManifest(text []byte) (m ocispec.Manifest, err error) {
	if len(text) > MaxManifest {
		return m, malformed("a manifest of %d bytes", len(text))
	}
	if err := strictly(text, &m); err != nil {
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
		mediaType, most := WasmType, int64(MaxWasm)
		switch {
		case i == 0:
			mediaType, most = ConfigType, MaxManifest
		case i%2 == 0:
			mediaType, most = ModuleManifestType, MaxManifest
		}
		switch {
		case d.MediaType != mediaType:
			return m, malformed("part %d is of type %q", i, d.MediaType)
		case CheckDigest(string(d.Digest)) != nil || len(d.Data) > 0 || len(d.URLs) > 0:
			return m, malformed("part %d is not named by its SHA-256 alone", i)
		case d.Size <= 0 || d.Size > most:
			return m, malformed("part %d has %d bytes", i, d.Size)
		}
		if sum += d.Size; sum > MaxSize {
			return m, malformed("more than %d bytes", MaxSize)
		}
	}
	return m, nil
}

// readConfig reads the config blob of a release with so many modules.
func readConfig(text []byte, modules int) (c config, err error) {
	if err := strictly(text, &c); err != nil {
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

// checkNames fails unless names are sorted, each there once.
func checkNames(names []string) error {
	for _, name := range names {
		if !moduleName.MatchString(name) {
			return malformed("%q names no module", name)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		return malformed("the modules are not sorted, each there once")
	}
	return nil
}

// checkModule holds a module's own manifest to its name; the rest of it is the
// host's to judge.
func checkModule(name string, wasm, manifest []byte) error {
	if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
		return malformed("module %s is not WebAssembly 1", name)
	}
	var said struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(manifest, &said); err != nil {
		return malformed("the manifest of module %s: %v", name, err)
	}
	if said.Name != name {
		return malformed("the manifest of module %s is that of %q", name, said.Name)
	}
	return nil
}

// CheckDigest fails unless s is sha256: and 64 hexadecimal digits, the only form
// that releases and their parts are named in.
func CheckDigest(s string) error {
	d := digest.Digest(s)
	if d.Validate() != nil || d.Algorithm() != digest.SHA256 {
		return malformed("%.80q is no SHA-256 digest", s)
	}
	return nil
}

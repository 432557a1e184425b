package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"
)

// ErrTaken means that there is a release of the same version with other content.
var ErrTaken = errors.New("taken by another release")

// Pack creates a release of the modules in dir, each NAME.wasm with its NAME.json,
// pushes it to target and tags it with its version, unless another release has that tag
// (ErrTaken). It is not signed. The same modules and version always have the same digest.
func Pack(ctx context.Context, target oras.Target, dir, version string) (ocispec.Descriptor, error) {
	d, err := pack(ctx, target, dir, version)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("packing %s: %w", dir, err)
	}
	return d, nil
}

func pack(ctx context.Context, target oras.Target, dir, version string) (none ocispec.Descriptor, err error) {
	if err := CheckVersion(version); err != nil {
		return none, err
	}
	modules, err := ReadFolder(dir)
	if err != nil {
		return none, err
	}
	if err := CheckModules(modules); err != nil {
		return none, err
	}
	if _, err := ReadManifests(modules); err != nil {
		return none, err
	}
	blobs, err := assemble(ctx, modules, version)
	if err != nil {
		return none, err
	}
	made := blobs[len(blobs)-1].Descriptor
	other, err := target.Resolve(ctx, version)
	if err == nil && other.Digest != made.Digest {
		return none, fmt.Errorf("version %s is %w, %s", version, ErrTaken, other.Digest)
	}
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return none, err
	}
	for _, one := range blobs {
		if err := push(ctx, target, one.Descriptor, one.bytes); err != nil {
			return none, err
		}
	}
	return made, target.Tag(ctx, made, version)
}

// assemble returns the content of a release: the modules with their manifests, the config,
// and the OCI manifest at the end. It refuses what Open would.
func assemble(ctx context.Context, modules []Module, version string) (blobs []blob, err error) {
	c := config{Version: version}
	var layers []ocispec.Descriptor
	for _, m := range modules {
		c.Modules = append(c.Modules, m.Name)
		wasm, manifest := titled(WasmType, m.Name+".wasm", m.Wasm), titled(ModuleManifestType, m.Name+".json", m.Manifest)
		blobs, layers = append(blobs, wasm, manifest), append(layers, wasm.Descriptor, manifest.Descriptor)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	configured := content.NewDescriptorFromBytes(ConfigType, text)
	annotations := maps.Clone(created)
	annotations[ocispec.AnnotationVersion] = version
	aside := memory.New()
	d, err := oras.PackManifest(ctx, aside, oras.PackManifestVersion1_1, ArtifactType, oras.PackManifestOptions{
		ConfigDescriptor: &configured, Layers: layers, ManifestAnnotations: annotations,
	})
	if err != nil {
		return nil, err
	}
	manifest, err := content.FetchAll(ctx, aside, d)
	if err != nil {
		return nil, err
	}
	_, err = readManifest(manifest)
	return append(blobs, blob{configured, text}, blob{d, manifest}), err
}

// titled returns a layer with the name of its file.
func titled(mediaType, title string, text []byte) blob {
	d := content.NewDescriptorFromBytes(mediaType, text)
	d.Annotations = map[string]string{ocispec.AnnotationTitle: title}
	return blob{d, text}
}

// ReadFolder reads the modules in dir, each NAME.wasm with its NAME.json, sorted by
// name: at most MaxSize bytes of modules. A file of the two without the other is refused, lest
// a module is missed only when it is called.
func ReadFolder(dir string) (modules []Module, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, entry := range entries {
		file := entry.Name()
		if ext := filepath.Ext(file); ext == ".wasm" || ext == ".json" {
			names[strings.TrimSuffix(file, ext)] = true
		}
	}
	left := int64(MaxSize)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		m := Module{Name: name}
		path := filepath.Join(dir, m.Name)
		if m.Wasm, err = readUpTo(path+".wasm", min(left, MaxWasm)); err != nil {
			return nil, err
		}
		if m.Manifest, err = readUpTo(path+".json", MaxManifest); err != nil {
			return nil, err
		}
		if err := checkModule(m.Name, m.Wasm, m.Manifest); err != nil {
			return nil, err
		}
		left -= int64(len(m.Wasm) + len(m.Manifest))
		modules = append(modules, m)
	}
	return modules, nil
}

// readUpTo reads a file that must not have more than limit bytes.
func readUpTo(file string, limit int64) ([]byte, error) {
	text, err := readFile(file, limit+1)
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, malformed("%s has more than %d bytes", file, limit)
	}
	return text, nil
}

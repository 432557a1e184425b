package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
)

// Pack creates a release of the modules in dir, each NAME.wasm with its NAME.json,
// pushes it to target and tags it with its version. It is not signed. The same
// modules and version always have the same digest.
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
	files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
	if err != nil {
		return none, err
	}
	c := config{Version: version, Modules: []string{}}
	for _, file := range files {
		c.Modules = append(c.Modules, strings.TrimSuffix(filepath.Base(file), ".wasm"))
	}
	slices.Sort(c.Modules)
	if err := checkNames(c.Modules); err != nil {
		return none, err
	}
	if len(c.Modules) == 0 || len(c.Modules) > MaxModules {
		return none, malformed("%d modules, want 1 to %d", len(c.Modules), MaxModules)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return none, err
	}
	configured := content.NewDescriptorFromBytes(ConfigType, text)
	if err := push(ctx, target, configured, text); err != nil {
		return none, err
	}
	layers, err := packModules(ctx, target, dir, c.Modules)
	if err != nil {
		return none, err
	}
	annotations := map[string]string{ocispec.AnnotationVersion: version}
	for name, value := range created {
		annotations[name] = value
	}
	d, err := oras.PackManifest(ctx, target, oras.PackManifestVersion1_1, ArtifactType, oras.PackManifestOptions{
		ConfigDescriptor: &configured, Layers: layers, ManifestAnnotations: annotations,
	})
	if ignoreExisting(err) != nil {
		return none, err
	}
	return d, target.Tag(ctx, d, version)
}

// packModules pushes the modules to target, at most MaxSize bytes.
func packModules(ctx context.Context, target oras.Target, dir string, names []string) (layers []ocispec.Descriptor, err error) {
	left := int64(MaxSize)
	for _, name := range names {
		wasm, err := readUpTo(filepath.Join(dir, name+".wasm"), min(left, MaxWasm))
		if err != nil {
			return nil, err
		}
		manifest, err := readUpTo(filepath.Join(dir, name+".json"), MaxManifest)
		if err != nil {
			return nil, err
		}
		if err := checkModule(name, wasm, manifest); err != nil {
			return nil, err
		}
		for _, one := range []struct {
			mediaType, suffix string
			text              []byte
		}{{WasmType, ".wasm", wasm}, {ModuleManifestType, ".json", manifest}} {
			d := content.NewDescriptorFromBytes(one.mediaType, one.text)
			d.Annotations = map[string]string{ocispec.AnnotationTitle: name + one.suffix}
			if err := push(ctx, target, d, one.text); err != nil {
				return nil, err
			}
			layers = append(layers, d)
			left -= d.Size
		}
	}
	return layers, nil
}

// readUpTo reads a file that must not have more than limit bytes.
func readUpTo(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, malformed("%s has more than %d bytes", file, limit)
	}
	return text, nil
}

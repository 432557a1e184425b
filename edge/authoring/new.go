package authoring

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"partneredge/edge/hint"
	"partneredge/store/durable"
	"partneredge/wasm"
)

//go:embed template
var templates embed.FS

// New writes a new module into the folder dir, which must be empty or missing. The
// folder builds without a network. It returns the paths of the files, relative to dir.
func New(dir, name string, language wasm.Language) ([]string, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	files, err := wasm.SDK(language)
	if err != nil {
		return nil, hint.Add(fmt.Errorf("starting a module: %w", err), "languages are go, rust and c")
	}
	for _, folder := range []string{"template/all", "template/" + string(language)} {
		made, err := fill(folder, name)
		if err != nil {
			return nil, fmt.Errorf("starting a module: %w", err)
		}
		maps.Copy(files, made)
	}
	files[".gitignore"] = []byte(outputDir + "/\ntarget/\n")
	if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
		return nil, hint.Add(fmt.Errorf("starting a module: the folder %s is not empty", dir), "name another folder with --dir")
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("starting a module: %w", err)
	}
	return write(dir, files)
}

// fill returns the files of a folder of templates for a module. A template's name
// ends in .tmpl, which its file's does not.
func fill(folder, name string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(templates, folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		t, err := template.ParseFS(templates, file)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := t.Execute(&text, map[string]string{"Name": name, "Crate": strings.ReplaceAll(name, "-", "_")}); err != nil {
			return err
		}
		files[strings.TrimSuffix(strings.TrimPrefix(file, folder+"/"), ".tmpl")] = text.Bytes()
		return nil
	})
	return files, err
}

// write writes files by their slash-separated paths below dir.
func write(dir string, files map[string][]byte) (written []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(path.Dir(name))), 0o755); err != nil {
			return nil, fmt.Errorf("starting a module: %w", err)
		}
		if err := durable.WriteFile(to, files[name], 0o644); err != nil {
			return nil, fmt.Errorf("starting a module: %w", err)
		}
		written = append(written, name)
	}
	return written, nil
}

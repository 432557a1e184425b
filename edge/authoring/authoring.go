// Package authoring does the work of `edge module`: it writes a new module into a
// folder of its own, builds it with its language's compiler, runs its cases, says
// what a host would refuse, and serves it while its author changes it.
//
// A module's folder holds manifest.json, the sources, openapi.json with the OpenAPI
// description of its routes, and cases.json. Nothing in it needs this repository.
package authoring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"partneredge/edge/hint"
	"partneredge/edge/release"
	"partneredge/host"
	"partneredge/wasm"
	"partneredge/wasm/route"
)

// Files of a module's folder.
const (
	manifestFile = "manifest.json"
	openAPIFile  = "openapi.json"
	casesFile    = "cases.json"
	outputDir    = "build" // where Build puts the module by default
)

// Project is a module's folder.
type Project struct {
	Dir      string
	Language wasm.Language
	Manifest host.Manifest
}

// taken are the names of the modules that every release has.
var taken = []string{route.Gate, "agents", "coaching", "sentinels", "webhooks", "leads"}

// checkName returns an error unless a module may have this name.
func checkName(name string) error {
	if !release.IsModuleName(name) {
		return hint.Add(fmt.Errorf("%q is no name for a module", name), "1 to 40 of a to z, 0 to 9 and dashes, a letter first")
	}
	if slices.Contains(taken, name) {
		return hint.Add(fmt.Errorf("the name %s is taken by a module that every release has", name), "choose another name")
	}
	return nil
}

// Open reads the folder of a module.
func Open(dir string) (*Project, error) {
	p := &Project{Dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, hint.Add(fmt.Errorf("opening the module: %w", err), "name the module's folder; edge module new NAME makes one")
	}
	if err := parse(text, &p.Manifest); err != nil {
		return nil, fmt.Errorf("opening the module: %s: %w", manifestFile, err)
	}
	if err := checkName(p.Manifest.Name); err != nil {
		return nil, fmt.Errorf("opening the module: %s: %w", manifestFile, err)
	}
	p.Language, err = detect(dir)
	return p, err
}

// detect returns the language of the sources in a folder.
func detect(dir string) (wasm.Language, error) {
	for _, one := range []struct {
		pattern  string
		language wasm.Language
	}{{"src/lib.rs", wasm.Rust}, {"*.go", wasm.Go}, {"*.c", wasm.C}} {
		if found, _ := fs.Glob(os.DirFS(dir), one.pattern); len(found) > 0 { // fails for a bad pattern only
			return one.language, nil
		}
	}
	return "", hint.Add(fmt.Errorf("opening the module: no sources in %s", dir), "sources are *.go, src/lib.rs or *.c")
}

// parse parses JSON that a person wrote: it refuses unknown fields and anything after
// the value, and says on which line it failed.
func parse[T any](text []byte, into *T) error {
	text = bytes.TrimRight(text, " \t\r\n")
	var syntax *json.SyntaxError
	err := json.Unmarshal(text, new(json.RawMessage))
	end := len(text)
	if errors.As(err, &syntax) {
		end = max(0, int(syntax.Offset)-1) // without the byte that is wrong: it may end a line
	} else if err = decode(text, into); err != nil {
		end, err = firstFailure[T](text)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(text[:end], []byte{'\n'}), err)
}

func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// firstFailure returns where the first token of JSON ends that makes it no T, and why. The
// errors of package json give no offset for unknown fields, or for texts that a type refuses.
func firstFailure[T any](text []byte) (end int, err error) {
	type beginning struct {
		end     int    // of a token
		closing string // the brackets that are open there, from the inmost
	}
	var all []beginning
	closing := ""
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a number that no float64 holds may stand where any JSON may
	for {
		token, err := d.Token()
		if err != nil { // there are no more
			break
		}
		switch token {
		case json.Delim('{'):
			closing = "}" + closing
		case json.Delim('['):
			closing = "]" + closing
		case json.Delim('}'), json.Delim(']'):
			closing = closing[1:]
		}
		all = append(all, beginning{int(d.InputOffset()), closing})
	}
	// What fails with a token fails with more of them too.
	fails := func(i int) bool {
		end = all[i].end
		whole := string(text[:end]) + all[i].closing
		if !json.Valid([]byte(whole)) { // the token is the name of a field
			whole = string(text[:end]) + ":null" + all[i].closing
		}
		err = decode([]byte(whole), new(T))
		return err != nil
	}
	fails(sort.Search(len(all), fails))
	return end, err
}

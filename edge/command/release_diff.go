package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"oras.land/oras-go/v2"

	"partneredge/edge/adminapi"
	"partneredge/edge/output"
	"partneredge/edge/release"
)

// comparison is the JSON of edge release diff.
type comparison struct {
	Before compared `json:"before"`
	After  compared `json:"after"`
	Same   bool     `json:"same"` // nothing that nodes run differs
	release.Difference
}

// compared is one of the two that are compared.
type compared struct {
	Version string `json:"version"` // "" for a folder of modules
	Digest  string `json:"digest"`  // likewise
	Folder  string `json:"folder"`  // "" for a release
	Size    int64  `json:"size"`    // of the modules, bytes
	modules []release.Module
}

func defineDiff(flags *pflag.FlagSet) handler {
	var admin adminFlags
	admin.register(flags)
	return func(ctx context.Context, c *invocation) error {
		var d comparison
		for i, into := range []*compared{&d.Before, &d.After} {
			var err error
			if *into, err = readCompared(ctx, c, &admin, c.args[i]); err != nil {
				return err
			}
		}
		var err error
		if d.Difference, err = release.Compare(d.Before.modules, d.After.modules); err != nil {
			return hint(fmt.Errorf("comparing %s and %s: %w", c.args[0], c.args[1], err), "edge release pack says what must be mended")
		}
		d.Same = len(d.Modules) == 0
		raw, err := json.Marshal(d)
		if err != nil {
			return err
		}
		return c.Print(raw, func(w io.Writer) { printDiff(w, d) })
	}
}

// readCompared reads the release or the folder that an argument of diff names: a folder
// of modules, LAYOUT:RELEASE in an OCI layout, or else a release of the origin.
func readCompared(ctx context.Context, c *invocation, admin *adminFlags, name string) (compared, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		if _, err := os.Stat(filepath.Join(name, "oci-layout")); err == nil {
			return compared{}, usagef("such as "+name+":1.4.0", "release diff: %s is an OCI layout: say which release of it", name)
		}
		return readComparedFolder(name)
	}
	var from oras.ReadOnlyGraphTarget
	var digest string
	dir, reference := cutLayout(name)
	if dir != "" {
		layout, err := openLayout(ctx, dir)
		if err == nil {
			digest, err = resolve(ctx, layout, reference)
		}
		if err != nil {
			return compared{}, err
		}
		from = layout
	} else {
		var err error
		if from, digest, err = findAtOrigin(ctx, c, admin, name); err != nil {
			return compared{}, err
		}
	}
	r, err := release.Outline(ctx, release.OCI(from), digest)
	if err != nil {
		return compared{}, releaseHint(err)
	}
	return newCompared(compared{Version: r.Version, Digest: r.Digest, modules: r.Modules}), nil
}

func readComparedFolder(dir string) (compared, error) {
	modules, err := release.ReadFolder(dir)
	if err == nil && len(modules) == 0 {
		err = errors.New("it has no modules")
	}
	if err != nil {
		return compared{}, hint(fmt.Errorf("reading %s: %w", dir, err), "each module is NAME.wasm with its manifest NAME.json beside it: 'make modules' builds them")
	}
	return newCompared(compared{Folder: dir, modules: modules}), nil
}

func newCompared(c compared) compared {
	for i := range c.modules {
		c.Size += c.modules[i].Size()
	}
	return c
}

// cutLayout returns the parts of LAYOUT:RELEASE, where LAYOUT is the folder of an OCI
// layout; dir is "" for any other name.
func cutLayout(name string) (dir, reference string) {
	for i := range name {
		if name[i] != ':' {
			continue
		}
		if _, err := os.Stat(filepath.Join(name[:i], "oci-layout")); err == nil && i > 0 {
			return name[:i], name[i+1:]
		}
	}
	return "", ""
}

// findAtOrigin returns the origin's registry, and the digest of the release in it that
// an id, a version or a digest names.
func findAtOrigin(ctx context.Context, c *invocation, admin *adminFlags, name string) (oras.ReadOnlyGraphTarget, string, error) {
	if c.admin == nil {
		var err error
		if c.admin, err = admin.client(); err != nil {
			if strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
				return nil, "", usagef("a folder has NAME.wasm and NAME.json; an OCI layout is LAYOUT:RELEASE", "release diff: there is no folder %s", name)
			}
			return nil, "", err
		}
	}
	id, err := findRelease(ctx, c.admin, name)
	if err != nil {
		return nil, "", err
	}
	_, r, err := call[adminapi.Release](ctx, c.admin, http.MethodGet, "/releases/"+url.PathEscape(id), nil)
	if err != nil {
		return nil, "", err
	}
	registry, err := originRegistry(c.admin)
	return registry, r.Digest, err
}

func printDiff(w io.Writer, d comparison) {
	fmt.Fprintf(w, "before\t%s\nafter\t%s\nsize\t%d -> %d bytes (%+d)\n", d.Before, d.After, d.Before.Size, d.After.Size, d.After.Size-d.Before.Size)
	if d.Same {
		fmt.Fprintln(w, "\nnothing differs: modules, routes and grants are the same")
		return
	}
	fmt.Fprintln(w, "\nMODULE\tCHANGE\tOF\tSIZE\tBYTES")
	for _, m := range d.Modules {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%+d\n", output.Plain(m.Name), m.Change, partsChanged(m), m.SizeAfter, m.SizeAfter-m.SizeBefore)
	}
	if len(d.Routes) > 0 {
		fmt.Fprintln(w, "\nROUTE\tCHANGE\tMODULE\tSCOPE")
	}
	for _, r := range d.Routes {
		module, scope := fromTo(r.Before, r.After, func(o *release.RouteOwner) string { return o.Module }),
			fromTo(r.Before, r.After, func(o *release.RouteOwner) string { return o.Scope })
		fmt.Fprintf(w, "%s %s\t%s\t%s\t%s\n", output.Plain(r.Method), output.Plain(r.Path), r.Change, output.Plain(module), output.Plain(scope))
	}
	if len(d.Grants) > 0 {
		fmt.Fprintln(w, "\nGRANT\tCHANGE\tMODULE\tKIND")
	}
	for _, g := range d.Grants {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", output.Plain(g.Name), g.Change, output.Plain(g.Module), g.Kind)
	}
}

// String names what is compared.
func (c compared) String() string {
	if c.Folder != "" {
		return output.Plain(c.Folder)
	}
	return output.Plain(c.Version + " " + c.Digest)
}

func partsChanged(m release.ModuleChange) string {
	switch {
	case m.WasmChanged && m.ManifestChanged:
		return "wasm, manifest"
	case m.WasmChanged:
		return "wasm"
	}
	return "manifest"
}

// fromTo returns what one of two owners has, or both where they differ.
func fromTo(before, after *release.RouteOwner, of func(*release.RouteOwner) string) string {
	switch {
	case before == nil:
		return of(after)
	case after == nil || of(before) == of(after):
		return of(before)
	}
	return of(before) + " -> " + of(after)
}

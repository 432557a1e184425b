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
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"partneredge/edge/adminapi"
	"partneredge/edge/hint"
	"partneredge/edge/node/rollout"
	"partneredge/edge/output"
	"partneredge/edge/release"
	"partneredge/host"
)

func showRelease(ctx context.Context, c *invocation) error {
	id, err := findRelease(ctx, c.admin, c.args[0])
	if err != nil {
		return err
	}
	raw, r, err := call[adminapi.Release](ctx, c.admin, http.MethodGet, "/releases/"+url.PathEscape(id), nil)
	if err != nil {
		return err
	}
	return printRelease(c, raw, r)
}

// printRelease prints a release of the admin API.
func printRelease(c *invocation, raw json.RawMessage, r adminapi.Release) error {
	return c.Print(raw, func(w io.Writer) {
		output.Fields(w, raw, "id", "version", "digest", "size", "created_at")
		for _, m := range r.Modules {
			fmt.Fprintf(w, "module\t%s, %d bytes\n", output.Plain(m.Name), m.Size)
		}
		for _, s := range r.Signers {
			fmt.Fprintf(w, "signed by\t%s\n", output.Plain(s.KeyID))
		}
	})
}

func defineVerify(flags *pflag.FlagSet) handler {
	var admin adminFlags
	admin.register(flags)
	var compiled moduleFlags
	compiled.registerCache(flags)
	keyFile := flags.String("keys", "release.pub", "`FILE` of public keys, one of which must have signed")
	least := flags.String("min", "", "least `VERSION` (default: any)")
	dir := flags.String("layout", "", "`DIR` of an OCI layout that it is in (default: the origin's registry)")
	return func(ctx context.Context, c *invocation) error {
		if err := filled(c.cmd, "min"); err != nil {
			return err
		}
		if *least != "" && release.CheckVersion(*least) != nil {
			return misused(c.cmd, "--min %q is no version such as 1.4.0", *least)
		}
		keys, err := release.ReadKeys(*keyFile)
		if err != nil {
			return hint.Add(err, "name the file of public keys with --keys; edge release keygen makes one")
		}
		var target oras.ReadOnlyGraphTarget
		var digest string
		if *dir != "" {
			if target, err = release.OpenLayout(ctx, *dir); err == nil {
				digest, err = resolve(ctx, target, c.args[0])
			}
		} else if c.admin, err = admin.client(); err == nil {
			target, digest, err = findAtOrigin(ctx, c, &admin, c.args[0]) // as a rollout finds it: a tag can be moved
		}
		if err != nil {
			return err
		}
		r, err := release.Open(ctx, release.OCI(target), digest, release.Policy{Keys: keys, Min: *least})
		if err != nil {
			return releaseHint(err)
		}
		if err := compiled.complete(); err != nil {
			return err
		}
		if err := judge(ctx, r, compiled.cache); err != nil {
			return err
		}
		signers := []map[string]string{}
		text := fmt.Sprintf("release %s is good: %s", r.Version, r.Digest)
		for _, s := range r.Signers {
			signers = append(signers, map[string]string{"key_id": s.KeyID, "comment": s.Comment})
			text += "\nsigned by key " + s.KeyID
		}
		return c.Line(map[string]any{"version": r.Version, "digest": r.Digest, "signers": signers}, text)
	}
}

// judge returns an error unless nodes of this program would run a release. cache is for what
// is compiled.
func judge(ctx context.Context, r *release.Release, cache string) error {
	runtime, err := host.New(ctx, host.Config{CacheDir: cache})
	if err != nil {
		return nodeHint(err)
	}
	defer runtime.Close(context.WithoutCancel(ctx))
	err = rollout.Check(ctx, r, runtime, cache)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return hint.Add(fmt.Errorf("release %s would be refused by nodes of this program: %w", r.Version, err),
			"build and pack its modules anew before nodes run this program")
	}
	return nil
}

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
			return hint.Add(fmt.Errorf("comparing %s and %s: %w", c.args[0], c.args[1], err), "edge release pack says what must be mended")
		}
		d.Same = len(d.Modules) == 0
		return c.Value(d, func(w io.Writer) { printDiff(w, d) })
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
	dir, reference := release.CutLayout(name)
	if dir != "" {
		layout, err := release.OpenLayout(ctx, dir)
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
		return compared{}, hint.Add(fmt.Errorf("reading %s: %w", dir, err), "each module is NAME.wasm with its manifest NAME.json beside it: 'make modules' builds them")
	}
	return newCompared(compared{Folder: dir, modules: modules}), nil
}

func newCompared(c compared) compared {
	for i := range c.modules {
		c.Size += c.modules[i].Size()
	}
	return c
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

// resolve returns the digest that a tag or a digest names.
func resolve(ctx context.Context, target oras.ReadOnlyTarget, reference string) (string, error) {
	d, err := target.Resolve(ctx, reference)
	if err != nil {
		return "", releaseHint(fmt.Errorf("finding release %s: %w", reference, err))
	}
	return string(d.Digest), nil
}

// releaseHint adds advice to the error of a release that is refused, or of a
// registry.
func releaseHint(err error) error {
	for _, h := range []struct {
		kind   error
		advice string
	}{
		{release.ErrUnsigned, "sign it: edge release sign"},
		{release.ErrWrongKey, "is the signer's public key in the file of --keys?"},
		{release.ErrTampered, "do not run it; pack and sign the modules anew"},
		{release.ErrTruncated, "push it again: a part did not come through whole"},
		{release.ErrDowngrade, "pack it under a newer version, or lower --min"},
		{release.ErrMalformed, "edge release pack makes releases"},
		{release.ErrNotFound, "push it again: a part is missing"},
		{errdef.ErrNotFound, "is the tag, or the digest, right?"},
	} {
		if errors.Is(err, h.kind) {
			return hint.Add(err, "%s", h.advice)
		}
	}
	refused, ok := errors.AsType[*errcode.ErrorResponse](err)
	switch {
	case !ok:
		return err
	case refused.StatusCode == http.StatusUnauthorized:
		return hint.Add(err, "the origin's registry takes an admin token, others $EDGE_REGISTRY_USER and $EDGE_REGISTRY_PASSWORD")
	case refused.StatusCode == http.StatusForbidden:
		return hint.Add(err, "pushing to the origin needs the role operator (edge token create --role operator)")
	}
	return hint.Add(err, "the registry takes releases and their signatures, and nothing else")
}

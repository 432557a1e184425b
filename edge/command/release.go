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

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"

	"partneredge/edge/release"
)

func releaseOperations() []operation {
	key := func(o *operators) {
		o.text("key", "release.key", "`FILE` of the private key, as minisign writes it; its password is asked for, or $EDGE_RELEASE_PASSWORD")
	}
	what := func(o *operators) {
		o.text("modules", "", "`DIR` of the modules and their manifests (default: modules beside the program)")
		o.text("version", "", "`VERSION` of the release, such as 1.4.0")
	}
	return append([]operation{
		{name: "keygen", summary: "make a pair of keys to sign releases with", local: true, flags: func(o *operators) {
			o.text("key", "release.key", "`FILE` of the private key, which is made")
			o.text("pub", "release.pub", "`FILE` of the public key, for the nodes' --release-keys, which is made")
			o.Bool("no-password", false, "leave the private key open, where something else protects it")
		}, run: runKeygen},
		{name: "pack", summary: "make a release of modules, unsigned, in an OCI layout", local: true, flags: func(o *operators) {
			what(o)
			o.text("layout", "", "`DIR` of the OCI layout, made if need be")
		}, run: runPack},
		{name: "sign", args: "RELEASE", summary: "sign a release (tag or digest) in an OCI layout", local: true, flags: func(o *operators) {
			o.text("layout", "", "`DIR` of the OCI layout")
			key(o)
		}, run: runSign},
		{name: "push", summary: "pack and sign modules, and give them to the origin as a release", flags: func(o *operators) {
			what(o)
			key(o)
		}, run: runPush},
		{name: "pull", args: "RELEASE", summary: "give the origin a release (tag or digest) from elsewhere, with its signatures", flags: func(o *operators) {
			o.text("from", "", "where it is: HOST/REPOSITORY of an OCI registry, or `DIR` of an OCI layout")
			o.Bool("plain-http", false, "ask that registry without TLS")
		}, run: runPull},
		{name: "list", summary: "list all releases, newest first", run: func(ctx context.Context, o *operators) error {
			return o.all(ctx, "/releases", "id", "version", "digest", "size", "created_at")
		}},
		{name: "show", args: "RELEASE", summary: "show a release (id, version or digest): its modules, and who signed", run: runShow},
		{name: "verify", args: "RELEASE", summary: "judge a release (tag or digest) as a node would", flags: func(o *operators) {
			o.text("keys", "release.pub", "`FILE` of public keys, one of which must have signed")
			o.text("min", "", "least `VERSION` (default: any)")
			o.text("layout", "", "`DIR` of an OCI layout that it is in (default: the origin's registry)")
		}, offline: func(o *operators) bool { return o.value("layout") != "" }, run: runVerify},
	}, rolloutOperations()...)
}

func runPack(ctx context.Context, o *operators) error {
	if err := o.required("version", "layout"); err != nil {
		return err
	}
	store, err := oci.NewWithContext(ctx, o.value("layout"))
	if err != nil {
		return hint(fmt.Errorf("opening the layout: %w", err), "name an empty folder, or one that has an OCI layout, with --layout")
	}
	digest, err := o.pack(ctx, store)
	if err != nil {
		return err
	}
	return o.say(map[string]any{"version": o.value("version"), "digest": digest, "layout": o.value("layout")}, digest)
}

// pack makes the release that the flags describe, and returns its digest.
func (o *operators) pack(ctx context.Context, target oras.Target) (string, error) {
	if err := release.CheckVersion(o.value("version")); err != nil {
		return "", usagef("versions are MAJOR.MINOR.PATCH, such as 1.4.0 or 1.4.0-rc.1", "%s: --version %q is no version", o.Name(), o.value("version"))
	}
	dir, err := modulesDir(o.value("modules"))
	if err != nil {
		return "", err
	}
	d, err := release.Pack(ctx, target, dir, o.value("version"))
	if err != nil {
		return "", hint(err, "each module is NAME.wasm with its manifest NAME.json beside it: 'make modules' builds them")
	}
	return string(d.Digest), nil
}

func runSign(ctx context.Context, o *operators) error {
	if err := o.required("layout"); err != nil {
		return err
	}
	store, err := openLayout(ctx, o.value("layout"))
	if err != nil {
		return err
	}
	d, err := resolve(ctx, store, o.args[0])
	if err != nil {
		return err
	}
	signer, err := o.sign(ctx, store, d)
	if err != nil {
		return err
	}
	return o.say(map[string]any{"digest": d, "key_id": signer.KeyID, "comment": signer.Comment}, d)
}

func (o *operators) sign(ctx context.Context, target oras.GraphTarget, digest string) (release.Signer, error) {
	key, err := readSigningKey(o.value("key"), o.stderr)
	if err != nil {
		return release.Signer{}, err
	}
	return release.Sign(ctx, target, digest, key)
}

// openLayout opens an OCI layout that is there.
func openLayout(ctx context.Context, dir string) (*oci.Store, error) {
	_, err := os.Stat(filepath.Join(dir, "oci-layout"))
	var store *oci.Store
	if err == nil {
		store, err = oci.NewWithContext(ctx, dir)
	}
	return store, hint(wrapped("opening the layout", err), "edge release pack --layout DIR makes one")
}

// wrapped says what was tried; nil stays nil.
func wrapped(tried string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", tried, err)
}

// resolve is the digest that a tag or a digest names.
func resolve(ctx context.Context, target oras.ReadOnlyTarget, reference string) (string, error) {
	d, err := target.Resolve(ctx, reference)
	if err != nil {
		return "", registryHint(fmt.Errorf("finding release %s: %w", reference, err))
	}
	return string(d.Digest), nil
}

func runVerify(ctx context.Context, o *operators) error {
	keys, err := release.ReadKeys(o.value("keys"))
	if err != nil {
		return hint(err, "name the file of public keys with --keys; edge release keygen makes one")
	}
	policy := release.Policy{Keys: keys, Min: o.value("min")}
	if policy.Min != "" && release.CheckVersion(policy.Min) != nil {
		return usagef(o.hint(), "%s: --min %q is no version such as 1.4.0", o.Name(), policy.Min)
	}
	var target oras.ReadOnlyGraphTarget
	if dir := o.value("layout"); dir != "" {
		target, err = openLayout(ctx, dir)
	} else {
		target, err = originRegistry(o.admin)
	}
	if err != nil {
		return err
	}
	digest, err := resolve(ctx, target, o.args[0])
	if err != nil {
		return err
	}
	r, err := release.Open(ctx, release.OCI(target), digest, policy)
	if err != nil {
		return releaseHint(err)
	}
	signers := []map[string]string{}
	text := fmt.Sprintf("release %s is good: %s", r.Version, r.Digest)
	for _, s := range r.Signers {
		signers = append(signers, map[string]string{"key_id": s.KeyID, "comment": s.Comment})
		text += "\nsigned by key " + s.KeyID
	}
	return o.say(map[string]any{"version": r.Version, "digest": r.Digest, "signers": signers}, text)
}

// releaseHint says what to do about a release that is refused.
func releaseHint(err error) error {
	for kind, what := range map[error]string{
		release.ErrUnsigned:  "sign it: edge release sign",
		release.ErrWrongKey:  "is the signer's public key in the file of --keys?",
		release.ErrTampered:  "do not run it; pack and sign the modules anew",
		release.ErrTruncated: "push it again: a part did not come through whole",
		release.ErrDowngrade: "pack it under a newer version, or lower --min",
		release.ErrMalformed: "edge release pack makes releases",
		release.ErrNotFound:  "push it again: a part is missing",
	} {
		if errors.Is(err, kind) {
			return hint(err, "%s", what)
		}
	}
	return registryHint(err)
}

func runShow(ctx context.Context, o *operators) error {
	id, err := findRelease(ctx, o.admin, o.args[0])
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := o.admin.call(ctx, http.MethodGet, "/releases/"+url.PathEscape(id), nil, &raw); err != nil {
		return err
	}
	return o.showRelease(raw)
}

// showRelease shows a release as the admin API has it.
func (o *operators) showRelease(raw json.RawMessage) error {
	var r struct {
		ID, Version, Digest string
		Size                int64
		Modules             []struct {
			Name string
			Size int64
		}
		Signers []struct {
			KeyID string `json:"key_id"`
		}
		CreatedAt string `json:"created_at"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	return o.print(raw, func(w io.Writer) error {
		fmt.Fprintf(w, "id\t%s\nversion\t%s\ndigest\t%s\nsize\t%d\ncreated_at\t%s\n", r.ID, r.Version, r.Digest, r.Size, r.CreatedAt)
		for _, m := range r.Modules {
			fmt.Fprintf(w, "module\t%s, %d bytes\n", m.Name, m.Size)
		}
		for _, s := range r.Signers {
			fmt.Fprintf(w, "signed by\t%s\n", s.KeyID)
		}
		return nil
	})
}

// findRelease is the id of the release that has it, or a version or a digest (or
// how that begins).
func findRelease(ctx context.Context, admin *adminClient, ref string) (id string, err error) {
	if strings.HasPrefix(ref, "rel_") {
		return ref, nil
	}
	for cursor := ""; ; {
		var page struct {
			Items []struct{ ID, Version, Digest string } `json:"items"`
			Next  string                                 `json:"next_cursor"`
		}
		if err := admin.call(ctx, http.MethodGet, "/releases?limit=200&cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
			return "", err
		}
		for _, r := range page.Items {
			if r.Version == ref || len(ref) >= 8 && strings.HasPrefix(strings.TrimPrefix(r.Digest, "sha256:"), strings.TrimPrefix(ref, "sha256:")) {
				return r.ID, nil
			}
		}
		if cursor = page.Next; cursor == "" {
			return "", hint(fmt.Errorf("finding the release: the origin has none that is %q", ref), "edge release list shows what there is")
		}
	}
}

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"partneredge/edge/adminapi"
	"partneredge/edge/admission"
	"partneredge/edge/hint"
	"partneredge/edge/output"
	"partneredge/edge/release"
)

func newRelease() *cobra.Command {
	return newGroup("release", "pack, sign, push, compare and verify releases of modules; roll them out and back",
		newLocalCommand("keygen", "make a pair of keys to sign releases with", defineKeygen),
		newLocalCommand("pack", "make a release of modules, unsigned, in an OCI layout", definePack),
		newLocalCommand("sign RELEASE", "sign a release (tag or digest) in an OCI layout", defineSign),
		newAdminCommand("push", "pack and sign modules, and give them to the origin as a release", definePush),
		newAdminCommand("pull RELEASE", "give the origin a release (tag or digest) from elsewhere, with its signatures", definePull),
		newListCommand("list", "list all releases, newest first", "/releases", "id", "version", "digest", "size", "created_at"),
		newAdminCommand("show RELEASE", "show a release (id, version or digest): its modules, and who signed", func(*pflag.FlagSet) handler { return showRelease }),
		newLocalCommand("diff BEFORE AFTER", "compare modules, routes, grants and sizes: releases, LAYOUT:RELEASE, folders of modules", defineDiff),
		newLocalCommand("verify RELEASE", "judge a release (tag or digest) as a node of this program would, its modules opened and asked", defineVerify),
		newAdminCommand("rollout RELEASE", "bring a release (its id, version or digest) to the nodes, stage by stage", defineRollout),
		newAdminCommand("status", "show the last rollout, node by node", defineRolloutStatus),
		newAdminCommand("rollback", "end the rollout under way, or undo the last one: its nodes run what they ran before", defineRollback),
	)
}

// packFlags are the flags that describe a release to be made.
type packFlags struct{ modules, version string }

func (p *packFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&p.modules, "modules", "", "`DIR` of the modules and their manifests (default: modules in ../lib/edge, or beside the program)")
	flags.StringVar(&p.version, "version", "", "`VERSION` of the release, such as 1.4.0")
}

// pack makes the release, and returns its digest.
func (p *packFlags) pack(ctx context.Context, c *invocation, target oras.Target) (string, error) {
	if err := release.CheckVersion(p.version); err != nil {
		return "", usagef("versions are MAJOR.MINOR.PATCH, such as 1.4.0 or 1.4.0-rc.1", "release %s: --version %q is no version", c.cmd.Name(), p.version)
	}
	dir, err := modulesDir(p.modules)
	if err != nil {
		return "", err
	}
	const layout = "each module is NAME.wasm with its manifest NAME.json beside it: 'make modules' builds them"
	modules, err := release.ReadFolder(dir)
	var admitted admission.Admitted
	if err == nil {
		admitted, err = admission.Judge(modules)
	}
	if err != nil {
		return "", hint.Add(fmt.Errorf("packing %s: %w", dir, err), layout)
	}
	if err := admitted.CheckDials(newCheckDial()); err != nil {
		return "", hint.Add(fmt.Errorf("packing %s: %w", dir, err), "modules connect to public addresses only")
	}
	d, err := release.Pack(ctx, target, dir, p.version)
	if errors.Is(err, release.ErrTaken) {
		return "", hint.Add(err, "pack it under a newer version, or with --layout into another folder")
	}
	if err != nil {
		return "", hint.Add(err, layout)
	}
	return string(d.Digest), nil
}

// noLayout helps where a layout cannot be opened to add to it.
const noLayout = "name an empty folder, or one that has an OCI layout, with --layout"

func definePack(flags *pflag.FlagSet) handler {
	var what packFlags
	what.register(flags)
	dir := flags.String("layout", "", "`DIR` of the OCI layout, made if need be")
	return func(ctx context.Context, c *invocation) error {
		if err := required(c.cmd, "version", "layout"); err != nil {
			return err
		}
		if err := os.MkdirAll(*dir, 0o755); err != nil {
			return hint.Add(fmt.Errorf("opening the layout: %w", err), noLayout)
		}
		unlock, err := release.LockLayout(ctx, *dir)
		if err != nil {
			return err
		}
		defer unlock()
		layout, err := oci.NewWithContext(ctx, *dir)
		if err != nil {
			return hint.Add(fmt.Errorf("opening the layout: %w", err), noLayout)
		}
		digest, err := what.pack(ctx, c, layout)
		if err != nil {
			return err
		}
		return c.Line(map[string]any{"version": what.version, "digest": digest, "layout": *dir}, digest)
	}
}

func defineSign(flags *pflag.FlagSet) handler {
	dir := flags.String("layout", "", "`DIR` of the OCI layout")
	key := registerKey(flags)
	return func(ctx context.Context, c *invocation) error {
		if err := required(c.cmd, "layout"); err != nil {
			return err
		}
		unlock, err := release.LockLayout(ctx, *dir)
		if err != nil {
			return err
		}
		defer unlock()
		layout, err := release.OpenLayout(ctx, *dir)
		if err != nil {
			return err
		}
		digest, err := resolve(ctx, layout, c.args[0])
		if err != nil {
			return err
		}
		signer, err := sign(ctx, layout, digest, *key, c.stderr)
		if err != nil {
			return err
		}
		return c.Line(map[string]any{"digest": digest, "key_id": signer.KeyID, "comment": signer.Comment}, digest)
	}
}

// devKey returns the file of the private key to sign with: the one that is named, or
// where none is, and none lies in the current folder, the one that the edge dev of --data
// has made.
func devKey(cmd *cobra.Command, named string) string {
	made := filepath.Join(cmd.Flag("data").Value.String(), "release.key")
	if _, err := os.Stat(named); err != nil && !cmd.Flag("key").Changed && cmd.Flag("data").Changed {
		if _, err := os.Stat(made); err == nil {
			return made
		}
	}
	return named
}

func registerKey(flags *pflag.FlagSet) (file *string) {
	return flags.String("key", "release.key", "`FILE` of the private key, as minisign writes it; its password is asked for, or $EDGE_RELEASE_PASSWORD")
}

func sign(ctx context.Context, target oras.GraphTarget, digest, keyFile string, stderr io.Writer) (release.Signer, error) {
	key, err := release.ReadPrivateKey(keyFile, func() (string, error) { return askPassword(stderr, false) })
	if err != nil {
		return release.Signer{}, err
	}
	return release.Sign(ctx, target, digest, key)
}

func definePush(flags *pflag.FlagSet) handler {
	var what packFlags
	what.register(flags)
	key := registerKey(flags)
	return func(ctx context.Context, c *invocation) error {
		if err := required(c.cmd, "version"); err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "edge-release-")
		if err != nil {
			return fmt.Errorf("packing: %w", err)
		}
		defer os.RemoveAll(dir)
		layout, err := oci.NewWithContext(ctx, dir)
		if err != nil {
			return fmt.Errorf("packing: %w", err)
		}
		digest, err := what.pack(ctx, c, layout)
		if err != nil {
			return err
		}
		if _, err := sign(ctx, layout, digest, devKey(c.cmd, *key), c.stderr); err != nil {
			return err
		}
		return giveToOrigin(ctx, c, layout, digest)
	}
}

func definePull(flags *pflag.FlagSet) handler {
	where := flags.String("from", "", "where it is: HOST/REPOSITORY of an OCI registry, or `DIR` of an OCI layout")
	plainHTTP := flags.Bool("plain-http", false, "ask that registry without TLS")
	return func(ctx context.Context, c *invocation) error {
		if err := required(c.cmd, "from"); err != nil {
			return err
		}
		var from oras.ReadOnlyGraphTarget
		if _, err := os.Stat(filepath.Join(*where, "oci-layout")); err == nil {
			if from, err = release.OpenLayout(ctx, *where); err != nil {
				return err
			}
		} else {
			r, err := release.Repository(*where, *plainHTTP, auth.Credential{
				Username: os.Getenv("EDGE_REGISTRY_USER"), Password: os.Getenv("EDGE_REGISTRY_PASSWORD"),
			}, nil)
			if err != nil {
				return usagef("such as registry.example.com/edge/releases, or a folder with an OCI layout", "release pull: --from %q is neither a repository nor a layout", *where)
			}
			from = r
		}
		digest, err := resolve(ctx, from, c.args[0])
		if err != nil {
			return err
		}
		return giveToOrigin(ctx, c, from, digest)
	}
}

// originRegistry returns the origin's registry. It has the transport of the admin API's
// client and not its timeout: modules may take longer than that by a slow line.
func originRegistry(admin *adminapi.Client) (*remote.Repository, error) {
	var transport http.RoundTripper
	if admin.HTTP != nil {
		transport = admin.HTTP.Transport
	}
	return release.OriginRepository(admin.URL, admin.Token, transport)
}

// giveToOrigin copies a release with its signatures to the origin's registry, and
// asks the origin to make a release of it.
func giveToOrigin(ctx context.Context, c *invocation, from oras.ReadOnlyGraphTarget, digest string) error {
	to, err := originRegistry(c.admin)
	if err != nil {
		return err
	}
	root, leftOut, err := release.Copy(ctx, from, to, digest, func(total int64) func(int64) {
		bar := output.NewBar(c.stderr, total, progressbar.OptionSetDescription("copying"), progressbar.OptionShowBytes(true))
		return func(part int64) { _ = bar.Add64(part) } // it is only a picture
	})
	if err != nil {
		return releaseHint(err)
	}
	if leftOut > 0 {
		fmt.Fprintf(c.stderr, "signatures left out: %d, which do not name this release or cannot be read\n", leftOut)
	}
	raw, made, err := call[adminapi.Release](ctx, c.admin, http.MethodPost, "/releases", adminapi.NewRelease{Digest: &digest})
	if err != nil {
		return err
	}
	if err := to.Tag(ctx, root, made.Version); err != nil {
		return releaseHint(fmt.Errorf("tagging release %s: %w", made.Version, err))
	}
	return printRelease(c, raw, made)
}

// passwordVariable holds the password of the private key in scripts.
const passwordVariable = "EDGE_RELEASE_PASSWORD"

func defineKeygen(flags *pflag.FlagSet) handler {
	private := flags.String("key", "release.key", "`FILE` of the private key, which is made")
	public := flags.String("pub", "release.pub", "`FILE` of the public key, for the nodes' --release-keys, which is made")
	open := flags.Bool("no-password", false, "leave the private key open, where something else protects it")
	return func(_ context.Context, c *invocation) error {
		if filepath.Clean(*private) == filepath.Clean(*public) {
			return misused(c.cmd, "--key and --pub name one file")
		}
		for _, file := range []string{*private, *public} {
			if _, err := os.Lstat(file); err == nil {
				return hint.Add(fmt.Errorf("making keys: %s is there already", file), "name other files with --key and --pub")
			}
		}
		password := ""
		if !*open {
			var err error
			if password, err = askPassword(c.stderr, true); err != nil {
				return err
			}
		}
		key, err := release.MakeKeys(*private, *public, password)
		if err != nil {
			return fmt.Errorf("making keys: %w", err)
		}
		id := release.KeyID(key.ID())
		fmt.Fprintf(c.stderr, "key %s made: %s signs, and stays with you; nodes take %s with --release-keys\n", id, *private, *public)
		return c.Line(map[string]any{"key_id": id, "public_key": key.String(), "key_file": *private, "public_key_file": *public}, key.String())
	}
}

// askPassword returns the private key's password: from the environment, or asked
// for at the terminal, twice where it is new.
func askPassword(stderr io.Writer, fresh bool) (string, error) {
	if password := os.Getenv(passwordVariable); password != "" {
		return password, nil
	}
	in := int(os.Stdin.Fd())
	if !term.IsTerminal(in) {
		return "", usagef("set "+passwordVariable+", or run this at a terminal", "the private key's password is not given")
	}
	ask := func(what string) (string, error) {
		fmt.Fprint(stderr, what)
		text, err := term.ReadPassword(in)
		fmt.Fprintln(stderr)
		return string(text), err
	}
	password, err := ask("Password of the private key: ")
	if err != nil {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	if !fresh {
		return password, nil
	}
	again, err := ask("The same again: ")
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the password: %w", err)
	case password == "":
		return "", usagef("--no-password makes a key without one", "the password is empty")
	case again != password:
		return "", usagef("nothing was made: try again", "the passwords differ")
	}
	return password, nil
}

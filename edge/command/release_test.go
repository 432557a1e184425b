package command

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/scrypt"
	"oras.land/oras-go/v2/content/memory"

	"partneredge/edge/adminapi"
	"partneredge/edge/release"
)

// scriptEncrypt is `encrypt FILE PASSWORD`: protects an open private key of
// minisign's as minisign does, but at the least cost. What keygen does takes a
// gigabyte and seconds.
func scriptEncrypt(ts *testscript.TestScript, _ bool, args []string) {
	comment, encoded, _ := strings.Cut(strings.TrimSpace(ts.ReadFile(args[0])), "\n")
	key, err := base64.StdEncoding.DecodeString(encoded)
	ts.Check(err)
	// algorithms 6 bytes, salt 32, ops 8, mem 8, then sealed: key id and key 72, checksum 32
	const ops, mem, n = 1 << 15, 1 << 20, 1 << 10
	copy(key[2:4], "Sc")
	_, _ = rand.Read(key[6:38])
	binary.LittleEndian.PutUint64(key[38:], ops)
	binary.LittleEndian.PutUint64(key[46:], mem)
	sum := blake2b.Sum256(append([]byte("Ed"), key[54:126]...))
	copy(key[126:], sum[:])
	stream, err := scrypt.Key([]byte(args[1]), key[6:38], n, 8, 1, 104)
	ts.Check(err)
	for i, k := range stream {
		key[54+i] ^= k
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(comment+"\n"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600))
}

// scriptSpoil is `spoil LAYOUT`: changes the last byte of the largest blob.
func scriptSpoil(ts *testscript.TestScript, _ bool, args []string) {
	files, err := filepath.Glob(ts.MkAbs(filepath.Join(args[0], "blobs", "sha256", "*")))
	ts.Check(err)
	var largest string
	var most int64
	for _, file := range files {
		info, err := os.Stat(file)
		ts.Check(err)
		if info.Size() > most {
			largest, most = file, info.Size()
		}
	}
	text, err := os.ReadFile(largest)
	ts.Check(err)
	text[len(text)-1] ^= 1
	ts.Check(os.Remove(largest))
	ts.Check(os.WriteFile(largest, text, 0o600))
}

// TestModulesAreReproducible: sources that lie elsewhere give the same release, of
// modules that were compiled by their profile.
func TestModulesAreReproducible(t *testing.T) {
	modules, _ := testFiles.get(t)
	elsewhere := filepath.Join(t.TempDir(), "checkout")
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"wasm", "scripts"} {
		if err := os.CopyFS(filepath.Join(elsewhere, name), os.DirFS(filepath.Join("../..", name))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(elsewhere, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := filepath.Join(t.TempDir(), "modules")
	manifests, err := filepath.Glob("../../wasm/modules/*/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	first := t.TempDir()
	for _, manifest := range manifests {
		name := filepath.Base(filepath.Dir(manifest))
		build := exec.Command(filepath.Join(elsewhere, "scripts", "build-module"), "wasm/modules/"+name, again)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", name, err, out)
		}
		if text, err := os.ReadFile(filepath.Join(again, name+".wasm")); err != nil || !bytes.Contains(text, []byte("build\t-pgo=modules.pgo\n")) {
			t.Errorf("%s was not compiled by wasm/modules.pgo: %v", name, err)
		}
		for _, suffix := range []string{".wasm", ".json"} {
			if err := copyFile(filepath.Join(first, name+suffix), filepath.Join(modules, name+suffix)); err != nil {
				t.Fatal(err)
			}
		}
	}
	digest := func(dir string) string {
		d, err := release.Pack(context.Background(), memory.New(), dir, "1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		return string(d.Digest)
	}
	if a, b := digest(first), digest(again); a != b {
		t.Errorf("built here the release is %s, built in %s %s", a, elsewhere, b)
	}
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// TestVerifyGoesByTheRelease: a tag that another tool has moved does not change which release a
// version is, so what is verified is what a rollout brings to the nodes.
func TestVerifyGoesByTheRelease(t *testing.T) {
	t.Parallel()
	signer, dir := newSigner(t), t.TempDir()
	d := startDevForTest(t, dir)
	_, other := signer.ship(t, d, "1.0.0", nil)
	_, digest := signer.ship(t, d, "1.1.0", nil)
	repository, err := originRegistry(&adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()})
	if err != nil {
		t.Fatal(err)
	}
	tagged, err := repository.Resolve(t.Context(), other)
	if err == nil {
		err = repository.Tag(t.Context(), tagged, "1.1.0")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, cache := testFiles.get(t)
	var out, said strings.Builder
	args := []string{"release", "verify", "1.1.0", "--keys", signer.keys, "--cache", cache, "--admin", d.origin.AdminURL(), "--token-file", filepath.Join(dir, "origin", "admin.token")}
	if code := Main(t.Context(), "test", args, &out, &said); code != 0 || !strings.Contains(out.String(), digest) {
		t.Errorf("release 1.1.0 is %s, and edge release verify ends with %d: %s%s", digest, code, out.String(), said.String())
	}
}

// What is advised after a rollback is the command that helps against its reason.
func TestRolledBackAdvice(t *testing.T) {
	for reason, want := range map[string]string{
		"node node_1: refused: this node trusts no release key: start it with --release-keys FILE": "--release-keys",
		"node node_1: refused: opening release sha256:1: " + release.ErrWrongKey.Error():           "edge release sign",
		"node node_1: refused: " + release.ErrDowngrade.Error() + ": 1.0.0 is older than 2.0.0":    "--min-release",
		"by an operator": "the log of a node",
	} {
		if got := rolledBackAdvice(reason); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
	}
}

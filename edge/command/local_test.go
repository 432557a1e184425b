package command

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/certificate/certificatetest"
)

// writeCertificate writes a certificate of a name, which nobody else signed, as a Secret
// has it: tls.crt, tls.key and ca.crt.
func writeCertificate(t *testing.T, dir, name string) {
	t.Helper()
	cert, key := certificatetest.Pair(t, time.Now().UnixNano(), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{"tls.crt": cert, "ca.crt": cert, "tls.key": key} {
		written(t, filepath.Join(dir, file), text)
	}
}

// TestLocalCommandsOverTLS has commands find an origin by its directory that listens at
// every address, with a certificate of another name and its token in another folder, as
// the chart starts many.
func TestLocalCommandsOverTLS(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, filepath.Join(dir, "tls"), "edge-origin")
	data := filepath.Join(dir, "origin")
	var ready originReady
	startProgram(t, testFiles.program(t), filepath.Join(data, "origin.json"), &ready, "origin", "--data", data, "--admin", "[::]:0",
		"--nats-listen", "127.0.0.1:0", "--admin-token-file", filepath.Join(dir, "admin.token"),
		"--admin-tls-cert", filepath.Join(dir, "tls/tls.crt"), "--admin-tls-key", filepath.Join(dir, "tls/tls.key"))
	if !strings.HasPrefix(ready.AdminURL, "https://[::]:") {
		t.Fatalf("it listens at %s", ready.AdminURL)
	}
	t.Setenv("EDGE_ADMIN_CA", filepath.Join(dir, "none.crt")) // of another origin
	if out := edge(t, "node", "enrol", "--name", "eu-1", "--region", "eu", "--data", data); !strings.Contains(out, "BEGIN NATS USER JWT") {
		t.Errorf("enrolling: %s", out)
	}
	if out := edge(t, "status", "--data", data); !strings.Contains(out, "eu-1") {
		t.Errorf("the status: %s", out)
	}
	client, err := localClient(data)
	if err != nil || !strings.HasPrefix(client.URL, "https://127.0.0.1:") {
		t.Errorf("asked at %v, %v", client, err)
	}
}

// TestLocalCommandsWithoutProxy has commands find an origin by its directory that listens
// in clear at an address of a network. A proxy of the environment is not told its token.
func TestLocalCommandsWithoutProxy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	written(t, filepath.Join(dir, "origin.json"), []byte(`{"admin_url":"http://10.0.0.1:8090"}`))
	written(t, filepath.Join(dir, adminTokenFile), []byte("token"))
	client, err := (&adminFlags{data: dir}).client()
	if err != nil {
		t.Fatal(err)
	}
	if client.HTTP == nil || client.HTTP.Transport.(*http.Transport).Proxy != nil {
		t.Error("the origin's token is sent to the proxy of the environment")
	}
}

// TestReleasesOverTLS has the commands of releases ask an origin's registry whose
// certificate nobody knows but --admin-ca, or the folder of --data.
func TestReleasesOverTLS(t *testing.T) {
	t.Parallel()
	modules, cache := testFiles.get(t)
	dir := t.TempDir()
	writeCertificate(t, filepath.Join(dir, "tls"), "127.0.0.1")
	data := filepath.Join(dir, "origin")
	var ready originReady
	startProgram(t, testFiles.program(t), filepath.Join(data, "origin.json"), &ready, "origin", "--data", data, "--admin", "127.0.0.1:0",
		"--nats-listen", "127.0.0.1:0", "--admin-tls-cert", filepath.Join(dir, "tls/tls.crt"), "--admin-tls-key", filepath.Join(dir, "tls/tls.key"))
	private, public, layout := filepath.Join(dir, "release.key"), filepath.Join(dir, "release.pub"), filepath.Join(dir, "layout")
	edge(t, "release", "keygen", "--no-password", "--key", private, "--pub", public)
	for version, where := range map[string][]string{
		"1.0.0": {"--admin", ready.AdminURL, "--token-file", filepath.Join(data, adminTokenFile), "--admin-ca", filepath.Join(dir, "tls/ca.crt")},
		"2.0.0": {"--data", data},
	} {
		ask := func(args ...string) string { return edge(t, append(args, where...)...) }
		ask("release", "push", "--modules", modules, "--version", version, "--key", private)
		if out := ask("release", "verify", version, "--keys", public, "--cache", cache); !strings.Contains(out, "release "+version+" is good") {
			t.Errorf("verifying %s: %s", version, out)
		}
		if out := ask("release", "diff", version, modules); !strings.Contains(out, "nothing differs") {
			t.Errorf("comparing %s: %s", version, out)
		}
		pulled := version + "-rc.1"
		edge(t, "release", "pack", "--modules", modules, "--version", pulled, "--layout", layout)
		edge(t, "release", "sign", pulled, "--layout", layout, "--key", private)
		if out := ask("release", "pull", pulled, "--from", layout); !strings.Contains(out, pulled) {
			t.Errorf("pulling %s: %s", pulled, out)
		}
	}
}

// TestPinned refuses a server with another certificate than the file's, of the same name
// too.
func TestPinned(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer server.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "tls.crt")
	call := func() error {
		client, err := pinned(file)
		if err != nil {
			return err
		}
		return (&adminapi.Client{URL: server.URL, HTTP: client}).Call(t.Context(), "GET", "/nodes", nil, nil)
	}
	writeCertificate(t, dir, "127.0.0.1")
	if err := call(); err == nil || !strings.Contains(err.Error(), "another certificate") {
		t.Errorf("another one: %v", err)
	}
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for content, want := range map[string]string{
		string(own): "", "-----BEGIN X-----\n-----END X-----\n" + string(own): "", "words": "holds none in PEM", "": "holds none in PEM",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := call(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a file of %q: %v, want %q", content, err, want)
		}
	}
}

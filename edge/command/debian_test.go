package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// debianMade says how to make what EDGE_DEBIAN names.
const debianMade = "mmdebstrap --variant=essential --include=passwd,curl,openssl bookworm FILE.tar; EDGE_DEBIAN=FILE.tar"

// systemctlInDebian stands for systemd in a root file system without it: it runs a unit
// as its user, with its directory, credentials and capabilities, and waits until it is
// ready. What it prints is in /var/log.
const systemctlInDebian = `#!/bin/sh
set -eu
verb=$1
for unit; do :; done
case $verb in
stop) kill "$(cat "/run/$unit.pid")"; while kill -0 "$(cat "/run/$unit.pid")" 2>/dev/null; do sleep 0.1; done; exit ;;
esac
file=/usr/lib/systemd/system/$unit.service
setting() { sed -n "s/^$1=//p" "$file"; }
user=$(setting User)
state=/var/lib/$(setting StateDirectory)
install -d -m 700 "$state"
# As systemd does for the whole of a StateDirectory that has another owner.
[ "$(stat -c %U "$state")" = "$user" ] || chown -R "$user:$user" "$state"
export CREDENTIALS_DIRECTORY=/run/credentials/$unit
install -d -o "$user" -m 500 "$CREDENTIALS_DIRECTORY"
credential=$(setting LoadCredential)
[ -z "$credential" ] || install -o "$user" -m 400 "${credential#*:}" "$CREDENTIALS_DIRECTORY/${credential%%:*}"
. "/etc/edge/${unit#edge-}.env.sh"
start=$(setting ExecStart | sed 's,%S,/var/lib,')
caps=$(setting AmbientCapabilities | sed 's/CAP_/+/' | tr A-Z a-z)
ready=/var/lib/$unit/${unit#edge-}.json
eval "exec setpriv --reuid $user --regid $user --init-groups --no-new-privs --inh-caps -all${caps:+,$caps} ${caps:+--ambient-caps $caps} $start" >"/var/log/$unit" 2>&1 &
echo $! >"/run/$unit.pid"
for _ in $(seq 600); do
	[ ! -e "$ready" ] || exit 0
	kill -0 $! 2>/dev/null || { cat "/var/log/$unit"; exit 1; }
	sleep 0.1
done
echo "$unit is not ready"
exit 1
`

// TestOperationsInDebian installs the program in a bare Debian, and does there line by
// line what OPERATIONS.md says for one machine, as the users of the units.
func TestOperationsInDebian(t *testing.T) {
	tarball := os.Getenv("EDGE_DEBIAN")
	if tarball == "" || os.Getuid() != 0 {
		t.Skip("NOT TESTED: OPERATIONS.md in a bare Debian, for which root runs: " + debianMade)
	}
	root := filepath.Join(t.TempDir(), "debian")
	must := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil { // so that users in it reach it
		t.Fatal(err)
	}
	must("tar", "-C", root, "--exclude=./dev/*", "-xf", tarball)
	modules, _ := testFiles.get(t)
	built := t.TempDir()
	sandbox, err := filepath.Abs("../../build/sandbox.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"edge": testFiles.program(t), "modules": modules, "sandbox.wasm": sandbox} {
		if err := os.Symlink(from, filepath.Join(built, name)); err != nil {
			t.Fatal(err)
		}
	}
	must("make", "-s", "-C", "../..", "install", "FROM="+built, "DESTDIR="+root)
	for _, path := range []string{"usr/lib/edge/modules/gate.wasm", "usr/lib/edge/modules/gate.json", "usr/lib/edge/sandbox.wasm", "usr/share/man/man1/edge.1", "usr/share/bash-completion/completions/edge"} {
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Size() == 0 {
			t.Errorf("make install left out %s: %v", path, err)
		}
	}
	write("usr/bin/systemctl", systemctlInDebian, 0o755)

	var script strings.Builder
	script.WriteString("set -eux\n")
	for _, b := range append(operationsBlocks(t, "Install"), operationsBlocks(t, "One machine")...) {
		switch {
		case b.host == "install": // done above
		case b.kind == "env":
			script.WriteString("cat >" + b.file + " <<'EOF'\n" + b.text + "EOF\n")
			// Which systemd reads as it is, and a shell with quotes.
			script.WriteString("sed 's/=\\(.*\\)/=\"\\1\"/' " + b.file + " >" + b.file + ".sh\n")
		default:
			script.WriteString(b.text)
		}
	}
	for _, b := range operationsBlocks(t, "Backup and restore") {
		script.WriteString(b.text)
	}
	write("script", script.String(), 0o644)
	out, err := exec.Command("unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c",
		`set -e
ip link set lo up
mount -t proc proc "$0/proc"
mount --bind /dev "$0/dev"
exec chroot "$0" /bin/sh /script`, root).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"full_name":"Dana Reyes"`) {
		logs, _ := filepath.Glob(filepath.Join(root, "var/log/edge-*"))
		for _, name := range logs {
			text, _ := os.ReadFile(name)
			t.Logf("%s:\n%s", filepath.Base(name), text)
		}
		t.Errorf("in Debian: %v\n%s", err, out)
	}
}

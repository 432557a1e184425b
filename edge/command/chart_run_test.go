package command

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"partneredge/edge/adminapi"
)

// kubernetes stands for a cluster: it starts the pods of the chart as processes, each in a
// folder of its own.
type kubernetes struct {
	t       *testing.T
	dir     string
	objects map[string]object
	nats    string // the origin's, once it is there
	admin   string // likewise, as port-forward has it
	urls    map[string]string
	pod     string              // whose commands the page may run
	data    string              // of that pod
	up      map[string]*process // by pod
	restore object              // the pod that puts a backup back
}

// kubectl defines a cluster's tools for the script of a page. Secrets are folders.
const kubectl = `
helm() {
	case "$*" in
	"install edge edge/chart -f edge.yaml" | "upgrade --install edge edge/chart -f edge.yaml") test -f edge.yaml ;;
	*) echo "helm $*: not known here" >&2; return 1 ;;
	esac
}
edge() { "$PROGRAM" "$@"; }
kubectl() {
	case "$1 $2 $3" in
	"rollout status deployment/edge-origin" | "delete pod edge-restore" | "delete pod edge-secrets" | "scale statefulset/edge-origin --replicas=1") ;;
	"delete pvc data-edge-origin-0") rm -r "$CLAIM" ;;
	"exec -i edge-restore") test "$4 $5 $6" = "-c upload --"; shift 6; "$@" ;;
	"exec edge-secrets --") shift 3; "$@" ;;
	"exec -i edge-secrets") test "$4" = --; shift 4; "$@" ;;
	"exec $POD --") test "$4" = /usr/bin/edge; shift 4; "$PROGRAM" "$@" ;;
	"create secret generic")
		mkdir "$SECRETS/$4"; into=$SECRETS/$4; shift 4
		for file; do
			file=${file#--from-file=}
			if [ -d "$file" ]; then cp "$file"/* "$into"; else cp "$file" "$into"; fi
		done ;;
	*) echo "kubectl $*: not known here" >&2; return 1 ;;
	esac
}
`

// do runs a script of the page, and has a rollout that it waits for take place.
func (k *kubernetes) do(text string) (said string) {
	k.t.Helper()
	modules, _ := testFiles.get(k.t)
	var script strings.Builder
	flush := func() {
		cmd := exec.Command("sh", "-euc", kubectl+script.String())
		cmd.Dir = k.dir
		cmd.Env = append(os.Environ(), "PROGRAM="+testFiles.program(k.t), "SECRETS="+filepath.Join(k.dir, "secrets"), "POD="+k.pod, "CLAIM="+k.data)
		out, err := cmd.CombinedOutput()
		if err != nil {
			k.t.Fatalf("%v\n%s\n%s", err, script.String(), out)
		}
		said += string(out)
		script.Reset()
	}
	for line := range strings.Lines(text) {
		if done := k.cluster(strings.Fields(line)); done != nil {
			flush()
			done()
			continue
		}
		script.WriteString(strings.NewReplacer("/var/lib/edge", k.data, "/usr/lib/edge/modules", modules, "http://127.0.0.1:8090", k.admin).Replace(line))
	}
	flush()
	return said
}

// cluster returns what the cluster does at a command, nil where it does nothing.
func (k *kubernetes) cluster(words []string) func() {
	switch command := strings.Join(words, " "); {
	case strings.HasPrefix(command, "kubectl rollout status statefulset/"):
		return func() { k.rollOut(strings.TrimPrefix(words[3], "statefulset/")) }
	case strings.HasPrefix(command, "kubectl wait --for=delete pod/"):
		return k.up[strings.TrimPrefix(words[3], "pod/")].terminate
	case strings.HasPrefix(command, "kubectl scale ") && strings.HasSuffix(command, "=0"):
		return func() {} // its pods end; above
	case command == "kubectl apply -f restore.yaml":
		return func() { k.claim(k.restore) }
	case strings.HasSuffix(command, "=Succeeded pod/edge-restore --timeout=10m"):
		return func() { k.runToEnd(k.restore) }
	case command == "kubectl apply -f secrets.yaml", strings.HasPrefix(command, "kubectl wait --for=condition=Ready "):
		return func() {} // its container is this machine
	}
	return nil
}

// claim makes the volume of a pod that has the origin's claim.
func (k *kubernetes) claim(pod object) {
	k.t.Helper()
	if err := os.Mkdir(k.data, 0o755); err != nil {
		k.t.Fatal(err)
	}
	if pod.at("spec", "securityContext", "fsGroup") != nil {
		k.ownVolume(k.data)
	}
}

// runToEnd runs those containers of a pod that do not wait for anything.
func (k *kubernetes) runToEnd(pod object) {
	k.t.Helper()
	for _, c := range append(pod.list("spec", "initContainers"), pod.list("spec", "containers")...) {
		words := append(c.words("command"), c.words("args")...)
		if len(c.words("command")) == 0 {
			words = append([]string{testFiles.program(k.t)}, words...)
		}
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "/var/lib/edge", k.data)
		}
		if out, err := exec.CommandContext(k.t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
			k.t.Fatalf("%q: %v\n%s", words, err, out)
		}
	}
}

// ownVolume does what a kubelet does for fsGroupChangePolicy OnRootMismatch: all of a
// volume is the group's to read and write, unless its root is already.
func (k *kubernetes) ownVolume(root string) {
	k.t.Helper()
	const mode = os.ModeSetgid | 0o770
	info, err := os.Stat(root)
	if err != nil {
		k.t.Fatal(err)
	}
	if info.Mode()&mode == mode {
		return
	}
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, info.Mode()|mode)
		}
		return os.Chmod(path, info.Mode()|0o660)
	}); err != nil {
		k.t.Fatal(err)
	}
}

// path is where a pod's file lies.
func (k *kubernetes) path(pod, path string) string { return filepath.Join(k.dir, "pods", pod, path) }

// rollOut starts all pods of a StatefulSet.
func (k *kubernetes) rollOut(name string) {
	k.t.Helper()
	set := k.objects["StatefulSet "+name]
	if set == nil {
		k.t.Fatalf("no StatefulSet %s", name)
	}
	for i := range int(set.at("spec", "replicas").(float64)) {
		pod := fmt.Sprintf("%s-%d", name, i)
		k.volumes(set, pod)
		k.start(set, pod).terminate()
		k.start(set, pod) // as after a move, over the same volume
		k.probe(set, pod)
	}
}

// volumes makes those of a pod as a kubelet does: they are the group's, which may write,
// and Secrets are its to read.
func (k *kubernetes) volumes(set object, pod string) {
	k.t.Helper()
	spec := set.object("spec", "template", "spec")
	for _, m := range spec.list("containers")[0].list("volumeMounts") {
		at := k.path(pod, m.text("mountPath"))
		if err := os.MkdirAll(at, 0o755); err != nil {
			k.t.Fatal(err)
		}
		i := slices.IndexFunc(spec.list("volumes"), func(v object) bool { return v["name"] == m["name"] })
		if i >= 0 && spec.list("volumes")[i].at("configMap") != nil {
			for name, text := range k.objects["ConfigMap "+spec.list("volumes")[i].text("configMap", "name")].object("data") {
				if err := os.WriteFile(filepath.Join(at, name), []byte(text.(string)), 0o644); err != nil {
					k.t.Fatal(err)
				}
			}
			continue
		}
		if i < 0 || spec.list("volumes")[i].at("secret") == nil {
			k.ownVolume(at)
			continue
		}
		secret := filepath.Join(k.dir, "secrets", spec.list("volumes")[i].text("secret", "secretName"))
		files, err := os.ReadDir(secret)
		if err != nil {
			k.t.Fatalf("pod %s waits for ever: %v", pod, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(secret, f.Name()))
			if err != nil {
				k.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, f.Name()), text, 0o440); err != nil {
				k.t.Fatal(err)
			}
		}
	}
}

// start starts the program of a pod with the arguments that the chart gives it.
func (k *kubernetes) start(set object, pod string) *process {
	k.t.Helper()
	c := set.object("spec", "template", "spec").list("containers")[0]
	modules, cache := testFiles.get(k.t)
	var args []string
	for _, arg := range c.words("args") {
		arg = strings.NewReplacer("$(POD_NAME)", pod, "nats://edge-origin:4222", k.nats).Replace(arg)
		if flag, value, _ := strings.Cut(arg, "="); strings.HasPrefix(value, "0.0.0.0:") {
			arg = flag + "=127.0.0.1:0"
			if flag == "--nats-listen" && k.nats != "" {
				arg = flag + "=" + strings.TrimPrefix(k.nats, "nats://")
			}
		} else if strings.HasPrefix(value, "/") {
			arg = flag + "=" + k.path(pod, value)
		}
		args = append(args, arg)
	}
	if args[0] == "node" {
		args = append(args, "--modules", modules, "--cache", cache)
	}
	var ready struct {
		AdminURL   string `json:"admin_url"`
		NATSURL    string `json:"nats_url"`
		BaseURL    string `json:"base_url"`
		MetricsURL string `json:"metrics_url"`
	}
	k.up[pod] = startProgram(k.t, testFiles.program(k.t), filepath.Join(k.path(pod, "/var/lib/edge"), args[0]+".json"), &ready, args...)
	if args[0] == "origin" {
		k.nats, k.admin = ready.NATSURL, ready.AdminURL
	}
	k.urls = map[string]string{"admin": ready.AdminURL, "partner": ready.BaseURL, "metrics": strings.TrimSuffix(ready.MetricsURL, "/metrics")}
	return k.up[pod]
}

// probe asks a pod that has started what its probes ask.
func (k *kubernetes) probe(set object, pod string) {
	k.t.Helper()
	c := set.object("spec", "template", "spec").list("containers")[0]
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		if get := c.object(probe, "httpGet"); get != nil {
			await(k.t, "the "+probe+" of "+pod, func() bool {
				status, _ := request(k.t, "GET", k.urls[get.text("port")]+get.text("path"), "", "")
				return status == http.StatusOK
			})
		}
	}
}

// restoreBackup puts the backup back onto a new claim as the page says.
func (k *kubernetes) restoreBackup() {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, "tombstones.json"), []byte(`[{"id":"lead_gone","deleted_at":"2026-01-31T12:00:00Z"}]`), 0o600); err != nil {
		k.t.Fatal(err)
	}
	said := ""
	for _, b := range operationsBlocks(k.t, "Kubernetes") {
		switch {
		case b.host != "kuberestore":
		case b.kind == "sh":
			said += k.do(b.text)
		default:
			k.restore = byIdentity(k.t, readYAML(k.t, []byte(b.text)))["Pod edge-restore"]
		}
	}
	if !strings.Contains(said, "applied  1") {
		k.t.Errorf("no tombstone is applied after a restore: %s", said)
	}
	if want := k.objects["StatefulSet edge-origin"].object("spec", "template", "spec", "securityContext"); !reflect.DeepEqual(k.restore.object("spec", "securityContext"), want) {
		k.t.Errorf("a backup is put back by a pod with another securityContext than %v", want)
	}
	k.hasNodes()
}

// replaceSecrets replaces the files of the origin that are leaked as the page says.
func (k *kubernetes) replaceSecrets() {
	k.t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(k.data, name))
		if err != nil {
			k.t.Fatal(err)
		}
		return string(text)
	}
	token, keys, pods := read(adminTokenFile), read(secretsFile), 0
	for _, b := range operationsBlocks(k.t, "Kubernetes") {
		switch {
		case b.host != "kubesecrets":
		case b.kind == "sh":
			k.do(b.text)
		default:
			pods++
			pod := byIdentity(k.t, readYAML(k.t, []byte(b.text)))["Pod edge-secrets"]
			if !reflect.DeepEqual(pod.object("spec", "securityContext"), k.restore.object("spec", "securityContext")) {
				k.t.Error("the pod that replaces secrets has another securityContext than the one that restores")
			}
		}
	}
	if now := read(secretsFile); pods != 1 || strings.Count(now, "\n") != 1 || strings.Contains(keys, now) || read(adminTokenFile) == token {
		k.t.Errorf("%d pods replace the secrets; secrets.keys has %d lines, the token is another: %t", pods, strings.Count(now, "\n"), read(adminTokenFile) != token)
	}
	k.hasNodes()
}

// hasNodes waits until the origin hears both nodes.
func (k *kubernetes) hasNodes() {
	k.t.Helper()
	admin, err := localClient(k.path("edge-origin-0", "/var/lib/edge"))
	if err != nil {
		k.t.Fatal(err)
	}
	await(k.t, "both nodes", func() bool {
		var page adminapi.List[adminapi.Node]
		err := admin.Call(k.t.Context(), "GET", "/nodes", nil, &page)
		return err == nil && len(page.Items) == 2 && page.Items[0].Connected && page.Items[1].Connected
	})
}

// TestOperationsKubernetes does what OPERATIONS.md says for a cluster, with the pods that
// the chart makes of the page's values, each started twice.
func TestOperationsKubernetes(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	k := &kubernetes{t: t, dir: t.TempDir(), pod: "edge-origin-0", up: map[string]*process{}}
	k.data = k.path(k.pod, "/var/lib/edge")
	if err := os.Mkdir(filepath.Join(k.dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	var said string
	for _, b := range operationsBlocks(t, "Kubernetes") {
		if b.host == "kubemany" || b.host == "kubepostgres" || b.host == "kuberestore" || b.host == "kubesecrets" {
			continue // below, once there is what they are for
		}
		if b.kind == "sh" {
			said += k.do(b.text)
			continue
		}
		public, err := os.ReadFile(filepath.Join(k.dir, "release.pub"))
		if err != nil {
			t.Fatal(err)
		}
		b.text = strings.ReplaceAll(b.text, "PUBLIC_KEY", strings.Split(string(public), "\n")[1])
		objects, err := renderChart(t, b.text)
		if err != nil {
			t.Fatal(err)
		}
		k.objects = byIdentity(t, objects)
		if err := os.WriteFile(filepath.Join(k.dir, b.file), []byte(b.text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.hasNodes()
	if strings.Count(said, "eu") < 2 || !strings.Contains(said, "serving  2 of 2 nodes") {
		t.Errorf("the page says %s", said)
	}

	const makesToken = "/usr/bin/edge token create --name ME --role admin --data /var/lib/edge"
	notes, err := os.ReadFile(filepath.Join(chartDir, "templates", "NOTES.txt"))
	if err != nil || !strings.Contains(string(notes), makesToken+"\n") {
		t.Errorf("NOTES.txt names the console and not %s, %v", makesToken, err)
	}

	// The backup is one, and nothing but that was printed.
	restored := filepath.Join(k.dir, "restored")
	if out := edge(t, "restore", "--from", filepath.Join(k.dir, "edge.backup"), "--data", restored); !there(filepath.Join(restored, databaseFile)) {
		t.Errorf("of the backup there is no origin: %s", out)
	}
	k.restoreBackup()
	k.replaceSecrets()
	many := holdKeys(t, filepath.Join(k.dir, "secrets", "edge-origin-keys"), filepath.Join(k.dir, "keys"))
	said = ""
	for _, b := range operationsBlocks(t, "Kubernetes") {
		switch b.host {
		case "kubemany":
			k.pod, k.data = "deploy/edge-origin", many
			said += k.do(b.text)
		case "kubepostgres": // which leaves the database alone
			k.pod, k.data = "edge-origin-0", k.path("edge-origin-0", "/var/lib/edge")
			said += k.do(b.text)
		}
	}
	if !strings.Contains(said, "edge-node-eu-0") || !strings.Contains(said, "take that with pg_dump") {
		t.Errorf("with many origins and PostgreSQL the page says %s", said)
	}
}

// holdKeys runs the container that copies the keys of many origins to where the origin
// reads them, and an origin that finds them there, with TLS at every address. It returns
// the origin's data directory.
func holdKeys(t *testing.T, secret, made string) string {
	t.Helper()
	objects, err := renderChart(t, chartCases["many origins"])
	if err != nil {
		t.Fatal(err)
	}
	spec := byIdentity(t, objects)["Deployment edge-origin"].object("spec", "template", "spec")
	here := t.TempDir()
	into := strings.NewReplacer("/run/keys", secret, "/var/lib/edge", here, "/etc/edge/admin-tls", filepath.Join(here, "tls"))
	writeCertificate(t, filepath.Join(here, "tls"), "edge-origin")
	command := spec.list("initContainers")[0].words("command")
	for i := range command {
		command[i] = into.Replace(command[i])
	}
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", command, err, out)
	}
	var args []string
	for _, arg := range spec.list("containers")[0].words("args") {
		switch flag, _, _ := strings.Cut(arg, "="); flag {
		case "--nats-keys", "--secrets-file", "--admin-token-file", "--data", "origin", "--admin-tls-cert", "--admin-tls-key":
			args = append(args, into.Replace(arg))
		case "--admin":
			args = append(args, "--admin=0.0.0.0:0")
		}
	}
	var ready originReady
	startProgram(t, testFiles.program(t), filepath.Join(here, "origin.json"), &ready, append(args, "--nats-listen=127.0.0.1:0")...)
	admin, err := localClient(here)
	if err != nil {
		t.Fatal(err)
	}
	if token, err := os.ReadFile(filepath.Join(made, adminTokenFile)); err != nil || admin.Token != strings.TrimSpace(string(token)) {
		t.Errorf("its token is not that of the Secret: %v", err)
	}
	if err := admin.Call(t.Context(), "GET", "/nodes", nil, nil); err != nil {
		t.Errorf("an origin with the keys that were copied: %v", err)
	}
	for _, file := range []string{"secrets.keys", "nats/account.seed"} {
		was, err := os.ReadFile(filepath.Join(made, file))
		now, err2 := os.ReadFile(filepath.Join(here, "keys", filepath.Base(file)))
		if err != nil || err2 != nil || string(was) != string(now) {
			t.Errorf("%s was replaced: %v, %v", file, err, err2)
		}
	}
	return here
}

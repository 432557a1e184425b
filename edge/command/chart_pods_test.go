package command

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"partneredge/edge/service"
)

// holdPod holds one workload's pods to the program and to what a cluster of the profile
// "restricted" takes.
func holdPod(t *testing.T, workload object) {
	t.Helper()
	spec := workload.object("spec", "template", "spec")
	if !contains(podLabels(workload), workload.object("spec", "selector", "matchLabels")) {
		t.Errorf("its selector %v is not of its pods", workload.at("spec", "selector"))
	}
	for path, want := range map[string]any{
		"securityContext.runAsNonRoot": true, "securityContext.runAsUser": 65532.0, "securityContext.fsGroup": 65532.0,
		"securityContext.fsGroupChangePolicy": "OnRootMismatch", "securityContext.seccompProfile.type": "RuntimeDefault",
		"automountServiceAccountToken": false, "enableServiceLinks": false,
	} {
		if got := spec.at(strings.Split(path, ".")...); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	volumes := map[string]bool{}
	for _, v := range append(spec.list("volumes"), workload.list("spec", "volumeClaimTemplates")...) {
		name := v.text("name") + v.text("metadata", "name")
		if volumes[name] {
			t.Errorf("two volumes are %s", name)
		}
		volumes[name] = true
	}
	used := map[string]bool{}
	for _, c := range append(spec.list("containers"), spec.list("initContainers")...) {
		for path, want := range map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities.drop": []any{"ALL"},
		} {
			if got := c.at(append([]string{"securityContext"}, strings.Split(path, ".")...)...); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is %v, want %v", c.text("name"), path, got, want)
			}
		}
		for _, m := range c.list("volumeMounts") {
			if used[m.text("name")] = true; !volumes[m.text("name")] {
				t.Errorf("%s mounts %s, which is no volume", c.text("name"), m.text("name"))
			}
		}
	}
	if !maps.Equal(used, volumes) {
		t.Errorf("its volumes are %v, mounted are %v", volumes, used)
	}
	if len(spec.list("containers")) != 1 {
		t.Fatalf("its containers are %v", spec.at("containers"))
	}
	holdProgram(t, spec, spec.list("containers")[0])
	holdEnvironment(t, spec.list("containers")[0])
}

// holdEnvironment holds the files that a container's environment names to its volumes.
func holdEnvironment(t *testing.T, c object) {
	t.Helper()
	for _, e := range c.list("env") {
		file := e.text("value")
		if path.IsAbs(file) && !slices.ContainsFunc(c.list("volumeMounts"), func(m object) bool { return m.text("mountPath") == path.Dir(file) }) {
			t.Errorf("%s=%s is on no volume", e.text("name"), file)
		}
	}
}

// holdProgram holds how the program is started to the flags, ports and paths that it has.
func holdProgram(t *testing.T, spec, c object) {
	t.Helper()
	args := c.words("args")
	hasFlags(t, args[0], args[1:])
	mounts := map[string]bool{} // writable or not
	for _, m := range c.list("volumeMounts") {
		mounts[m.text("mountPath")] = m.at("readOnly") != true
	}
	listens := map[string]string{} // flag by port
	for _, arg := range args[1:] {
		flag, value, found := strings.Cut(arg, "=")
		switch {
		case strings.HasPrefix(value, "0.0.0.0:"):
			listens[strings.TrimPrefix(value, "0.0.0.0:")] = flag
		case strings.HasPrefix(value, "/"):
			below := slices.IndexFunc(slices.Collect(maps.Keys(mounts)), func(dir string) bool { return value == dir || strings.HasPrefix(value, dir+"/") })
			if below < 0 {
				t.Errorf("%s is on no volume", arg)
			}
		case found && strings.HasPrefix(value, "127."):
			t.Errorf("nobody reaches %s in a pod", arg)
		}
	}
	if image := dockerImage(t); !mounts[image.volume] || args[1] != "--data="+image.volume {
		t.Errorf("its data is %s, mounted are %v, and the image has %s", args[1], mounts, image.volume)
	} else if user := spec.text("securityContext", "runAsUser") + ":" + spec.text("securityContext", "runAsGroup"); user != image.user {
		t.Errorf("it runs as %s, and the files of the image are those of %s", user, image.user)
	} else {
		for port := range listens {
			if !slices.Contains(image.ports, port) {
				t.Errorf("the image does not expose %s", port)
			}
		}
	}
	named := map[string]string{}
	for _, p := range c.list("ports") {
		named[p.text("name")] = p.text("containerPort")
	}
	if got, want := slices.Sorted(maps.Values(named)), slices.Sorted(maps.Keys(listens)); !slices.Equal(got, want) {
		t.Errorf("its ports are %v, and it listens on %v", named, listens)
	}
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		o := c.object(probe)
		if o == nil && probe == "startupProbe" && args[0] == "node" {
			continue // its other listener is there from the beginning
		}
		flag := listens[named[o.text("httpGet", "port")]]
		encrypted := slices.ContainsFunc(args, func(arg string) bool {
			return strings.HasPrefix(arg, map[string]string{"--admin": "--admin-tls-cert=", "--listen": "--tls-cert="}[flag]+"/")
		})
		if flag == "" || (o.text("httpGet", "scheme") == "HTTPS") != encrypted || !slices.Contains([]string{"/healthz", "/readyz"}, o.text("httpGet", "path")) {
			t.Errorf("%s asks %v, of listeners %v", probe, o, listens)
		}
	}
	pause, err := strconv.Atoi(c.text("lifecycle", "preStop", "sleep", "seconds"))
	grace, err2 := strconv.Atoi(spec.text("terminationGracePeriodSeconds"))
	if err != nil || err2 != nil || pause < 1 || time.Duration(grace-pause)*time.Second < service.StopTime+5*time.Second {
		t.Errorf("it has %d s to stop, less a pause of %d s, and takes %s", grace, pause, service.StopTime)
	}
}

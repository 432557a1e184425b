package command

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"partneredge/edge/service"
	"partneredge/edge/wire"
)

// chartCases are values that are laid over those of the chart, by what they are for.
var chartCases = map[string]string{
	"one of each": "",
	"an origin on PostgreSQL with TLS": `
origin:
  database: {url: "postgres://edge@postgres/edge?sslmode=verify-full", passwordSecret: edge-database, caSecret: database-ca}
  natsTLSSecret: edge-nats-tls
  adminTLSSecret: edge-admin-tls
  flags: [--delivery-retention=168h, --allow-old-nodes]
  annotations: {example.com/pool: a}
nodes: {regions: []}
networkPolicy:
  natsFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]
  adminFrom: [{namespaceSelector: {matchLabels: {team: operators}}}]
`,
	"many origins": `
image: {repository: registry.example.com/partner-edge, tag: 1.2.3, pullSecrets: [registry]}
origin:
  database: {url: "postgres://edge@postgres/edge", passwordSecret: edge-database}
  nats: {urls: "tls://nats-0.nats:4222,tls://nats-1.nats:4443", keysSecret: edge-origin-keys, caSecret: nats-ca}
  adminTLSSecret: edge-admin-tls
  replicas: 3
nodes:
  tag: 1.2.2
  originCASecret: nats-ca
  regions:
    - {name: eu, replicas: 2, credentialsSecret: edge-node-eu, nodeSelector: {topology.kubernetes.io/region: eu}}
    - {name: us-east, replicas: 1, credentialsSecret: edge-node-us-east}
networkPolicy:
  adminFrom: [{namespaceSelector: {matchLabels: {team: monitoring}}}]
  metricsFrom: [{namespaceSelector: {matchLabels: {team: monitoring}}}]
serviceMonitor: {enabled: true, tokenSecret: edge-viewer, labels: {release: prometheus}}
`,
	"a region elsewhere": `
origin: {enabled: false}
nodes:
  origin: tls://origin.example.com:4223/,tls://[fd00::1],tls://origin.example.org:4223
  originCASecret: origin-ca
  tlsSecret: edge-partner-tls
  releaseKeys: |
    untrusted comment: ours
    RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3
  trustedProxies: [10.0.0.0/8, "fd00::/8"]
  service: {type: LoadBalancer, annotations: {example.com/balancer: network}}
  pause: 40
  storage: {size: 20Gi, className: fast}
  flags: [--log-format=json]
  regions: [{name: ap, replicas: 3, credentialsSecret: edge-node-ap}]
networkPolicy:
  metricsFrom: [{namespaceSelector: {}}]
  partnersFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]
  nodeEgress: [{ports: [{port: 443}]}]
serviceMonitor: {enabled: true}
`,
}

// TestChart holds what the chart makes to the program and the image, and its parts to
// each other: flags, ports, paths, probes, selectors, and what a pod may do.
func TestChart(t *testing.T) {
	for name, values := range chartCases {
		t.Run(name, func(t *testing.T) {
			objects, err := renderChart(t, values)
			if err != nil {
				t.Fatal(err)
			}
			all := byIdentity(t, objects)
			pods := 0
			for id, o := range all {
				if o.at("spec", "template") == nil {
					continue
				}
				pods++
				t.Run(id, func(t *testing.T) { holdPod(t, o); holdSpread(t, o); holdEgress(t, all, o) })
			}
			want := len(chartValues(t, values).list("nodes", "regions"))
			if chartValues(t, values).at("origin", "enabled") == true {
				want++
			}
			if pods != want {
				t.Errorf("%d of %d kinds of pods", pods, want)
			}
			holdSelectors(t, all)
			holdMonitors(t, all)
		})
	}
}

// TestOriginsMayTakeADayToStart holds what starts an origin to the time that a new version may
// need for the database: nothing gives it up before.
func TestOriginsMayTakeADayToStart(t *testing.T) {
	const day = "86400"
	for name, values := range chartCases {
		objects, err := renderChart(t, values)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			for _, c := range o.list("spec", "template", "spec", "containers") {
				if c.text("name") != "origin" {
					continue
				}
				if got := o.text("spec", "progressDeadlineSeconds"); o.text("kind") == "Deployment" && got != day {
					t.Errorf("%s: progressDeadlineSeconds is %q, want %s", name, got, day)
				}
				period, err := strconv.Atoi(c.text("startupProbe", "periodSeconds"))
				failures, err2 := strconv.Atoi(c.text("startupProbe", "failureThreshold"))
				if got := strconv.Itoa(period * failures); err != nil || err2 != nil || got != day {
					t.Errorf("%s: the startup probe gives up after %s s, want %s", name, got, day)
				}
			}
		}
	}
	text, err := os.ReadFile("../compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	if got := readYAML(t, text)[0].text("services", "origin", "healthcheck", "start_period"); got != "24h" {
		t.Errorf("start_period in compose.yml is %q, want 24h", got)
	}
}

// TestContainersHaveTimeToStop: Docker's own ten seconds are less than a node or an origin
// may take for what is under way.
func TestContainersHaveTimeToStop(t *testing.T) {
	text, err := os.ReadFile("../compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"origin", "eu", "us"} {
		given := readYAML(t, text)[0].text("services", name, "stop_grace_period")
		if grace, err := time.ParseDuration(given); err != nil || grace < service.StopTime+5*time.Second {
			t.Errorf("%s has %q to stop, and takes %s", name, given, service.StopTime)
		}
	}
}

// holdSpread holds the pods of a workload to be spread over machines, so that one machine
// that is lost does not take all of them.
func holdSpread(t *testing.T, workload object) {
	t.Helper()
	spread := workload.list("spec", "template", "spec", "topologySpreadConstraints")
	if len(spread) != 1 {
		t.Fatalf("its pods are spread by %v", spread)
	}
	if spread[0].text("topologyKey") != "kubernetes.io/hostname" || !contains(podLabels(workload), spread[0].object("labelSelector", "matchLabels")) {
		t.Errorf("its pods are spread by %v", spread[0])
	}
}

// podLabels returns the labels of a workload's pods, nil of what has none.
func podLabels(o object) object { return o.object("spec", "template", "metadata", "labels") }

func contains(labels, selector object) bool {
	for name, v := range selector {
		if labels[name] != v {
			return false
		}
	}
	return len(selector) > 0
}

// holdPartnerPorts holds the ports of services for partners, where none is set, to what
// their pods speak.
func holdPartnerPorts(t *testing.T, all map[string]object) {
	t.Helper()
	for id, o := range all {
		for _, p := range o.list("spec", "ports") {
			if p.text("name") != "partner" {
				continue
			}
			pod := all["StatefulSet "+o.text("metadata", "name")].object("spec", "template", "spec")
			want := map[string]string{"": "80", "HTTPS": "443"}[pod.list("containers")[0].text("readinessProbe", "httpGet", "scheme")]
			if got := p.text("port"); got != want {
				t.Errorf("%s has port %s, want %s", id, got, want)
			}
		}
	}
}

// dockerImage reads from the Dockerfile which image it makes.
func dockerImage(t *testing.T) image {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	stages := dockerStages(t, string(text))
	return imageOf(t, stages[len(stages)-1])
}

// TestChartRefuses has values that make no sense, which are refused and say why.
func TestChartRefuses(t *testing.T) {
	for values, why := range map[string]string{
		"nodes: {region: [eu]}": "region",
		"nodes: {regions: [{name: EU, replicas: 1, credentialsSecret: a}]}": "regions/0/name",
		"nodes: {regions: [{name: eu, credentialsSecret: a}]}":              "replicas",
		"nodes: {service: {type: ExternalName}}":                            "service/type",
		"nodes: {flags: [log-level]}":                                       "flags/0",
		"nodes: {pause: 0}":                                                 "nodes/pause",
		"nodes: {pause: 121}":                                               "nodes/pause",
		"nodes: {origin: http://origin.example.com}":                        "nodes/origin",
		"origin: {database: {url: mysql://a}}":                              "database/url",
		"origin: {replicas: 0}":                                             "replicas",
		"origin: {nats: {urls: nats://a}}":                                  "many origins",
		"origin: {nats: {urls: nats://a, keysSecret: k}}":                   "many origins",
		"origin: {natsTLSSecret: a, database: {url: postgres://a}, nats: {urls: nats://a, keysSecret: k}}": "embedded",
		"serviceMonitor: {enabled: true}\nnetworkPolicy: {enabled: false}":                                 "tokenSecret",
		"serviceMonitor: {enabled: true, tokenSecret: a}":                                                  "networkPolicy.adminFrom",
		"serviceMonitor: {enabled: true, tokenSecret: a}\nnetworkPolicy: {adminFrom: [{podSelector: {}}]}": "networkPolicy.metricsFrom",
		"origin: {enabled: false}\nnodes: {origin: nats://a}\nserviceMonitor: {enabled: true}":             "networkPolicy.metricsFrom",
		"origin: {natsTLSSecret: a}": "nodes.originCASecret",
	} {
		if _, err := renderChart(t, values); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: refused by %v, want %q", values, err, why)
		}
	}
	for _, values := range []string{"nodes: {originCASecret: a}", "nodes: {origin: tls://origin.example.com}", "nodes: {regions: []}"} {
		if _, err := renderChart(t, "origin: {natsTLSSecret: a}\n"+values); err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
	schema, err := os.ReadFile(filepath.Join(chartDir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var o object
	if err := json.Unmarshal(schema, &o); err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(o.object("properties", "nodes", "properties", "regions", "items", "properties", "name").text("pattern"))
	for _, region := range []string{"eu", "us-east-1", "1", "a-", "-a", "EU", "a.b", "a_b", ""} {
		if name.MatchString(region) && !wire.IsRegion(region) {
			t.Errorf("the schema takes the region %q, which the program does not", region)
		}
	}
}

// TestChartRefusesFlags: flags that contradict what the chart makes are refused, and the values
// that stand for them are named. Those that the chart gives itself are all such, but for one
// that may be given again.
func TestChartRefusesFlags(t *testing.T) {
	refused := map[string]string{ // what is named, by flag
		"nodes --drain": "nodes.pause", "nodes --acme-host": "nodes.tlsSecret", "nodes --acme-email": "nodes.tlsSecret",
		"origin --nats-leaf-listen": "origin.nats.urls", "origin --nats-credentials": "origin.nats.keysSecret",
	}
	for name, values := range chartCases {
		objects, err := renderChart(t, values)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, o := range objects {
			for _, c := range o.list("spec", "template", "spec", "containers") {
				part := map[string]string{"origin": "origin", "node": "nodes"}[c.text("name")]
				own := chartValues(t, values).words(part, "flags")
				for _, arg := range c.words("args")[1:] {
					if flag, _, _ := strings.Cut(arg, "="); !slices.Contains(own, arg) && flag != "--trusted-proxies" {
						refused[part+" "+flag] += "" // what is named stays
					}
				}
			}
		}
	}
	if len(refused) < 20 {
		t.Errorf("the chart gives only %v", refused)
	}
	for name, why := range refused {
		part, flag, _ := strings.Cut(name, " ")
		_, err := renderChart(t, part+": {flags: ["+flag+"=1]}")
		if err == nil || !strings.Contains(err.Error(), part+".flags: "+flag+": ") || !strings.Contains(err.Error(), why) {
			t.Errorf("%s.flags: %s: refused by %v, want %q", part, flag, err, why)
		}
	}
}

// TestChartDatabaseCA: an origin of the chart verifies PostgreSQL by the authority of the
// Secret.
func TestChartDatabaseCA(t *testing.T) {
	objects, err := renderChart(t, chartCases["an origin on PostgreSQL with TLS"])
	if err != nil {
		t.Fatal(err)
	}
	c := byIdentity(t, objects)["StatefulSet edge-origin"].object("spec", "template", "spec").list("containers")[0]
	here := t.TempDir()
	writeCertificate(t, here, "postgres")
	for _, e := range c.list("env") {
		if value := e.text("value"); value != "" {
			t.Setenv(e.text("name"), strings.Replace(value, "/etc/edge/database-ca", here, 1))
		}
	}
	for _, arg := range c.words("args") {
		database, is := strings.CutPrefix(arg, "--database=")
		if !is {
			continue
		}
		if config, err := pgx.ParseConfig(database); err != nil || config.TLSConfig == nil || config.TLSConfig.RootCAs == nil || config.TLSConfig.InsecureSkipVerify {
			t.Errorf("%s is not verified by the Secret's authority: %v", database, err)
		}
		return
	}
	t.Error("no --database")
}

// TestChartNotes: the notes say how the admin API speaks.
func TestChartNotes(t *testing.T) {
	for given, want := range map[string]string{"": "http", "origin: {adminTLSSecret: edge-admin-tls}": "https"} {
		files, err := renderFiles(t, given)
		if err != nil {
			t.Fatal(err)
		}
		if notes := string(files["NOTES.txt"]); !strings.Contains(notes, " "+want+"://127.0.0.1:8090/console/:") {
			t.Errorf("%s: want %s, and the notes say\n%s", given, want, notes)
		}
	}
}

// TestChartPause: nodes serve on for as long as their balancer needs, and have 25 s more.
func TestChartPause(t *testing.T) {
	for given, want := range map[string][2]string{"": {"5", "30"}, "nodes: {pause: 40}": {"40", "65"}, "nodes: {pause: 120}": {"120", "145"}} {
		objects, err := renderChart(t, given)
		if err != nil {
			t.Fatal(err)
		}
		spec := byIdentity(t, objects)["StatefulSet edge-node-local"].object("spec", "template", "spec")
		got := [2]string{spec.list("containers")[0].text("lifecycle", "preStop", "sleep", "seconds"), spec.text("terminationGracePeriodSeconds")}
		if got != want {
			t.Errorf("%s: it pauses for %s s of %s s, want %v", given, got[0], got[1], want)
		}
	}
}

// TestChartReleaseKeys: pods start anew with other release keys, which nodes read once.
func TestChartReleaseKeys(t *testing.T) {
	template := func(keys string) any {
		objects, err := renderChart(t, "nodes: {annotations: {example.com/pool: a}, releaseKeys: "+keys+"}")
		if err != nil {
			t.Fatal(err)
		}
		pods := byIdentity(t, objects)["StatefulSet edge-node-local"].object("spec", "template")
		if pods.text("metadata", "annotations", "example.com/pool") != "a" {
			t.Errorf("with keys %s the annotations are %v", keys, pods.at("metadata", "annotations"))
		}
		return map[string]any(pods)
	}
	one, same, other := template("one"), template("one"), template("other")
	if !reflect.DeepEqual(one, same) || reflect.DeepEqual(one, other) {
		t.Errorf("pods with other keys differ: %t", !reflect.DeepEqual(one, other))
	}
}

// TestChartHelm has helm itself take the chart, and make of it what the other tests hold.
func TestChartHelm(t *testing.T) {
	helm, err := exec.LookPath("helm")
	if err != nil {
		t.Skipf("NOT TESTED: what helm makes of edge/chart: %v", err)
	}
	for name, values := range chartCases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), helm, "lint", "--strict", chartDir, "-f", file).CombinedOutput(); err != nil {
				t.Fatalf("helm lint: %v\n%s", err, out)
			}
			out, err := exec.CommandContext(t.Context(), helm, "template", "edge", chartDir, "-f", file, "--kube-version", "1.31.0").Output()
			if err != nil {
				t.Fatalf("helm template: %v\n%s", err, out)
			}
			objects, err := renderChart(t, values)
			if err != nil {
				t.Fatal(err)
			}
			want, got := byIdentity(t, objects), byIdentity(t, readYAML(t, out))
			for id := range want {
				if !reflect.DeepEqual(got[id], want[id]) {
					t.Errorf("helm makes %s\n%v\nand not\n%v", id, got[id], want[id])
				}
			}
			if len(got) != len(want) {
				t.Errorf("helm makes %v", slices.Sorted(maps.Keys(got)))
			}
		})
	}
	for _, values := range []string{"origin.replicas=0", "nodes.region=eu", "origin.nats.urls=nats://a"} {
		if out, err := exec.CommandContext(t.Context(), helm, "template", "edge", chartDir, "--set", values).CombinedOutput(); err == nil {
			t.Errorf("helm takes %s:\n%s", values, out)
		}
	}
}

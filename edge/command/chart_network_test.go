package command

import (
	"cmp"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// holdSelectors holds what selects pods to pods that there are, and its ports to theirs.
func holdSelectors(t *testing.T, all map[string]object) {
	t.Helper()
	for id, o := range all {
		var selector object
		var ports []string
		switch o.text("kind") {
		case "Service":
			selector = o.object("spec", "selector")
			for _, p := range o.list("spec", "ports") {
				ports = append(ports, p.text("targetPort"))
			}
		case "NetworkPolicy":
			selector = o.object("spec", "podSelector", "matchLabels")
			for _, rule := range o.list("spec", "ingress") {
				for _, p := range rule.list("ports") {
					ports = append(ports, p.text("port"))
				}
				for _, from := range rule.list("from") {
					holdPeer(t, id, all, from)
				}
			}
			for _, rule := range o.list("spec", "egress") {
				for _, to := range rule.list("to") {
					holdPeer(t, id, all, to)
				}
			}
		case "PodDisruptionBudget":
			selector = o.object("spec", "selector", "matchLabels")
		default:
			continue
		}
		found := 0
		for _, w := range all {
			if !contains(podLabels(w), selector) {
				continue
			}
			found++
			have := map[string]bool{}
			for _, p := range w.object("spec", "template", "spec").list("containers")[0].list("ports") {
				have[p.text("name")], have[p.text("containerPort")] = true, true
			}
			for _, port := range ports {
				if !have[port] {
					t.Errorf("%s: its pods have no port %s", id, port)
				}
			}
		}
		if found == 0 && (o.text("kind") != "NetworkPolicy" || strings.HasSuffix(id, "-origin")) {
			t.Errorf("%s selects no pods: %v", id, selector)
		}
	}
	holdPartnerPorts(t, all)
	for id, o := range all {
		if name := o.text("spec", "serviceName"); name != "" && all["Service "+name] == nil {
			t.Errorf("%s has no service %s", id, name)
		}
		if o.text("kind") == "Deployment" && all["PodDisruptionBudget "+o.text("metadata", "name")] == nil {
			t.Errorf("a drain may take all pods of %s", id)
		}
	}
}

// holdPeer holds the peer of a network policy that names pods of the chart to pods that
// there are, or may be.
func holdPeer(t *testing.T, id string, all map[string]object, peer object) {
	t.Helper()
	labels := peer.object("podSelector", "matchLabels")
	if labels == nil || labels.text("app.kubernetes.io/component") == "node" {
		return // an origin need have no nodes beside it
	}
	for _, w := range all {
		if contains(podLabels(w), labels) {
			return
		}
	}
	t.Errorf("%s lets pods through that are none: %v", id, labels)
}

// holdMonitors holds what Prometheus is told to services that there are, and its jobs to
// those of the alerting rules.
func holdMonitors(t *testing.T, all map[string]object) {
	t.Helper()
	rules, err := os.ReadFile("../alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for id, o := range all {
		if o.text("kind") != "ServiceMonitor" {
			continue
		}
		var jobs []string
		for _, s := range all {
			if s.text("kind") != "Service" || !contains(s.object("metadata", "labels"), o.object("spec", "selector", "matchLabels")) {
				continue
			}
			jobs = append(jobs, s.text("metadata", "labels", o.text("spec", "jobLabel")))
			i := slices.IndexFunc(s.list("spec", "ports"), func(p object) bool { return p["name"] == o.list("spec", "endpoints")[0]["port"] })
			if i < 0 {
				t.Errorf("%s asks for port %v of %s", id, o.list("spec", "endpoints")[0]["port"], identity(s))
			} else if port := s.list("spec", "ports")[i].text("port"); !lets(all, s.object("spec", "selector"), "ingress", port) {
				t.Errorf("%s asks %s, whose network policy lets nobody through to %s", id, identity(s), port)
			}
		}
		holdScheme(t, id, all, o.list("spec", "endpoints")[0])
		slices.Sort(jobs)
		jobs = slices.Compact(jobs)
		if len(jobs) != 1 || !slices.ContainsFunc(regexp.MustCompile(`\bjob=~?"([^"]+)"`).FindAllSubmatch(rules, -1), func(m [][]byte) bool {
			return regexp.MustCompile("^(?:" + string(m[1]) + ")$").MatchString(jobs[0])
		}) {
			t.Errorf("%s makes the jobs %v, of which the alerting rules know none", id, jobs)
		}
	}
}

// holdEgress holds the network policy of nodes to the ports of the origin that they ask.
func holdEgress(t *testing.T, all map[string]object, workload object) {
	t.Helper()
	for _, arg := range workload.object("spec", "template", "spec").list("containers")[0].words("args") {
		urls, is := strings.CutPrefix(arg, "--origin=")
		for text := range strings.SplitSeq(urls, ",") {
			if u, err := url.Parse(text); is && (err != nil || !lets(all, podLabels(workload), "egress", cmp.Or(u.Port(), "4222"))) {
				t.Errorf("its network policy keeps it from %s: %v", text, err)
			}
		}
	}
}

// holdScheme holds Prometheus to TLS with the origin where that has it, by a name and by
// who signs it: the pods' IPs are in no certificate.
func holdScheme(t *testing.T, id string, all map[string]object, endpoint object) {
	t.Helper()
	secret := ""
	for _, w := range all {
		if w.text("metadata", "name") != id[strings.Index(id, " ")+1:] || w.at("spec", "template") == nil {
			continue
		}
		for _, v := range w.object("spec", "template", "spec").list("volumes") {
			if v.text("name") == "admin-tls" {
				secret = v.text("secret", "secretName")
			}
		}
	}
	encrypted := endpoint.text("scheme") == "https"
	if encrypted != (secret != "") || encrypted && (endpoint.text("tlsConfig", "ca", "secret", "name") != secret ||
		endpoint.text("tlsConfig", "ca", "secret", "key") != "ca.crt" || endpoint.text("tlsConfig", "serverName") != "edge-origin") {
		t.Errorf("%s asks %v, and the origin's certificate is in %q", id, endpoint, secret)
	}
}

// lets reports whether the network policies of pods, if there are any, open a port.
func lets(all map[string]object, pods object, direction, port string) bool {
	open := true
	for _, o := range all {
		if o.text("kind") != "NetworkPolicy" || !contains(pods, o.object("spec", "podSelector", "matchLabels")) {
			continue
		}
		open = false
		for _, rule := range o.list("spec", direction) {
			if slices.ContainsFunc(rule.list("ports"), func(p object) bool { return p.text("port") == port }) {
				return true
			}
		}
	}
	return open
}

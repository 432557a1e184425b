package origin

import (
	"strings"

	"partneredge/edge/wire"
)

func adminRegions(f *fixture) {
	good := object{"region": "eu-west", "url": "tls://origin.example.com:7422"}
	made := f.must(201, "POST", "/admin/v1/regions", good)
	region := made["region"].(object)
	id := region["id"].(string)
	if public, name := publicKeyOf(f.T, made["credentials"].(string)); name != id || region["public_key"] != public || region["region"] != "eu-west" {
		f.Errorf("credentials of %s are for %s", id, name)
	}
	for _, part := range []string{id, "tls://origin.example.com:7422", "region.creds", "region-system.creds"} {
		if !strings.Contains(made["config"].(string), part) {
			f.Errorf("the configuration lacks %s", part)
		}
	}
	for _, c := range []struct {
		field  string
		v      any
		reason string
	}{
		{"region", nil, "region_required"},
		{"region", "EU", "region_invalid"},
		{"region", strings.Repeat("r", 41), "region_too_long"},
		{"url", nil, "url_required"}, // this origin takes none itself
		{"url", "", "url_required"},
		{"url", "origin.example.com", "url_invalid"},
		{"url", "http://origin.example.com", "url_invalid"},
		{"url", "nats://" + strings.Repeat("h", 200), "url_too_long"},
		{"ca_file", "", "ca_file_required"},
		{"ca_file", strings.Repeat("f", 201), "ca_file_too_long"},
		{"id", "reg_mine", "unknown_field"},
	} {
		f.mustRefuse(400, c.reason, "POST", "/admin/v1/regions", with(good, c.field, c.v))
	}
	_, _, text := f.send("GET", "/admin/v1/regions", nil, "Bearer "+f.Token())
	if !strings.Contains(string(text), id) || strings.Contains(string(text), "NKEY SEED") || strings.Contains(string(text), "USER JWT") {
		f.Error("the list lacks the server, or shows credentials")
	}
	f.mustRefuse(400, "limit_not_integer", "GET", "/admin/v1/regions?limit=x", nil)
	for range 2 {
		if v := f.must(200, "POST", "/admin/v1/regions/"+id+"/revoke", nil); v["revoked_at"] == nil {
			f.Error("it is not revoked")
		}
	}
	f.mustRefuse(404, "not_found", "POST", "/admin/v1/regions/reg_none/revoke", nil)

	// A node of the region counts, under its regional address as well.
	node := f.regional("regional", "ap-south")
	node.connectAgain()
	says(f.T, node.conn, node.address, "dev")
	f.must(201, "POST", "/admin/v1/regions", with(good, "region", "ap-south"))
	f.eventually("the node to count as connected", func() bool {
		for _, item := range f.must(200, "GET", "/admin/v1/regions", nil)["items"].([]any) {
			if r := item.(object); r["region"] == "ap-south" {
				return r["nodes"] == float64(1) && r["nodes_connected"] == float64(1)
			}
		}
		return false
	})
	if reply := ask[wire.ChangesReply](node, wire.VerbChanges, wire.ChangesRequest{Head: head}); reply.Failure != "" {
		f.Errorf("a node with a regional address is told %q", reply.Failure)
	}
}

// connectAgain connects a node at its present address.
func (m *enrolled) connectAgain() {
	m.Helper()
	var err error
	if m.conn, err = m.connect(); err != nil {
		m.Fatal(err)
	}
}

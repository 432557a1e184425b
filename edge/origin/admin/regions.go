package admin

import (
	"net/http"
	"net/url"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
)

// RegionFiles holds the configuration and the credentials of a region's NATS server, and
// the public keys that its two users sign with.
type RegionFiles struct {
	Config, Credentials, SystemCredentials string
	PublicKey, SystemKey                   string
}

// Regions makes credentials for the NATS servers of regions, and knows who is connected.
type Regions interface {
	// RegionServer makes those of a region's server, which connects to url, and trusts the
	// authorities in the file ca, "" those of its system.
	RegionServer(id, region, url, ca string) (RegionFiles, error)
	// LeafURL returns where the origin's own NATS server takes those of regions, "" where
	// it takes none.
	LeafURL() string
	// Leaves returns the names of those that are connected, as they say themselves. known
	// is false where a cluster takes them.
	Leaves() (names map[string]bool, known bool)
}

// enrolRegion makes credentials for the NATS server of a region, which nobody can show
// again.
func (a *api) enrolRegion(r *http.Request, in adminapi.NewRegion, v *input.Validator) (answer, error) {
	region := v.Region("region", in.Region)
	address := a.Regions.LeafURL()
	if in.URL != nil {
		address = v.Text("url", in.URL, input.MaxName)
		if u, err := url.Parse(address); address != "" && (err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls") {
			v.Fail("url", "invalid", "url is an address of a NATS server, nats:// or tls://")
		}
	} else if address == "" {
		v.Fail("url", "required", "url says where the NATS server of the region connects to: this origin takes none itself")
	}
	ca := ""
	if in.CAFile != nil {
		ca = v.Text("ca_file", in.CAFile, input.MaxName)
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	id := store.NewID("reg", a.DB.Now())
	made, err := a.Regions.RegionServer(id, region, address, ca)
	if err != nil {
		return answer{}, err
	}
	server, err := a.DB.AddRegionServer(r.Context(), store.RegionServer{ID: id, Region: region, PublicKey: made.PublicKey, SystemKey: made.SystemKey})
	if err != nil {
		return answer{}, err
	}
	return created(adminapi.EnrolledRegion{
		Region: a.toRegion(server), Config: made.Config, Credentials: made.Credentials, SystemCredentials: made.SystemCredentials,
	}, nil)
}

// listRegions lists the NATS servers of regions.
func (a *api) listRegions(r *http.Request) (answer, error) {
	return page(r, func(p store.Page) ([]store.RegionServer, string, error) {
		return a.DB.RegionServers(r.Context(), p)
	}, a.toRegion)
}

// revokeRegion voids the credentials of a region's NATS server and ends its connection.
func (a *api) revokeRegion(r *http.Request) (answer, error) {
	server, _, err := a.DB.RevokeRegionServer(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if err := a.Nodes.Refresh(r.Context()); err != nil {
		// The next refresh tells NATS.
		a.Log.Warn("cannot end the connection of a revoked region's server", "server", server.ID, "err", err)
	}
	return ok(a.toRegion(server), nil)
}

func (a *api) toRegion(s store.RegionServer) adminapi.Region {
	v := adminapi.Region{ID: s.ID, Region: s.Region, PublicKey: s.PublicKey, CreatedAt: stamp(s.CreatedAt), RevokedAt: stamp(s.RevokedAt)}
	if names, known := a.Regions.Leaves(); known {
		v.Connected = new(names[s.ID] && s.RevokedAt.IsZero())
	}
	for _, at := range a.Nodes.Enrolled() {
		if s.Region == "" || at.Node.Region != s.Region {
			continue
		}
		v.Nodes++
		if at.Connected {
			v.NodesConnected++
		}
	}
	return v
}

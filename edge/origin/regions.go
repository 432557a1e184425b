package origin

import (
	"partneredge/edge/origin/admin"
	"partneredge/edge/origin/broker"
	"partneredge/edge/origin/natsauth"
)

// regions makes credentials for the NATS servers of regions, and knows who is connected.
// It implements admin.Regions.
type regions struct {
	*broker.Broker
	authority *natsauth.Authority
}

// RegionServer makes credentials for a region's server.
func (r regions) RegionServer(id, region, url, ca string) (admin.RegionFiles, error) {
	made, err := r.authority.RegionServer(id, region, natsauth.Leaf{URL: url, CA: ca}, r.Revoked())
	return admin.RegionFiles(made), err
}

package fleet

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"partneredge/edge/adminapi"
)

// OriginProcess is an origin in a process of its own. Started again, it has the addresses
// that it had.
type OriginProcess struct {
	Process
	Admin *Admin // nil before the first start
	NATS  string // URL
}

// Launch starts the origin of the program edge with its data in dir, and returns once it
// is ready.
func (o *OriginProcess) Launch(ctx context.Context, edge, dir string) error {
	admin, nats := "127.0.0.1:0", "127.0.0.1:0"
	if o.Admin != nil {
		admin, nats = strings.TrimPrefix(o.Admin.URL, "http://"), strings.TrimPrefix(o.NATS, "nats://")
	}
	var at struct {
		Admin string `json:"admin_url"`
		NATS  string `json:"nats_url"`
	}
	o.Ready = filepath.Join(dir, "origin.json")
	if err := o.Start(ctx, &at, edge, "origin", "--data", dir, "--admin", admin, "--nats-listen", nats, "--log-level", "error"); err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	o.Admin, o.NATS = &Admin{Client: adminapi.Client{URL: at.Admin, Token: strings.TrimSpace(string(token))}}, at.NATS
	return err
}

package command

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/hint"
	"partneredge/edge/output"
	"partneredge/store/durable"
)

func newRegion() *cobra.Command {
	return newGroup("region", "enrol, list and revoke the NATS servers of regions",
		newAdminCommand("enrol", "make credentials and configuration for the NATS server of a region, once", defineRegionEnrol),
		newListCommand("list", "list the NATS servers of all regions, revoked ones as well, newest first", "/regions",
			"id", "region", "connected", "nodes", "nodes_connected", "created_at", "revoked_at"),
		newRecordCommand("revoke SERVER", "void the credentials of a region's NATS server and end its connection", "POST /regions/%s/revoke", nil,
			"id", "region", "revoked_at"),
	)
}

func defineRegionEnrol(flags *pflag.FlagSet) handler {
	region := flags.String("region", "", "`NAME` of the region, as its nodes' --region says")
	out := flags.String("out", "", "`DIR` that region.conf, region.creds and region-system.creds are written to")
	address := flags.String("url", "", "`URL` at which the region reaches the origin's NATS (default: where the embedded server listens)")
	ca := flags.String("ca", "", "PEM `FILE` of who signs the certificate at that URL, copied to DIR/region-ca.pem (default: whom the region's system trusts)")
	return func(ctx context.Context, c *invocation) error {
		if err := required(c.cmd, "region", "out"); err != nil {
			return err
		}
		in := adminapi.NewRegion{Region: region}
		if *address != "" {
			in.URL = address
		}
		files := "region.conf, region.creds and region-system.creds"
		if *ca != "" {
			if err := copyCA(*ca, *out); err != nil {
				return err
			}
			in.CAFile = new("./" + regionCAFile)
			files = "region.conf, region.creds, region-system.creds and " + regionCAFile
		}
		_, made, err := call[adminapi.EnrolledRegion](ctx, c.admin, http.MethodPost, "/regions", in)
		if err != nil {
			return err
		}
		if err := writeRegion(*out, made); err != nil {
			return hint.Add(fmt.Errorf("the server %s is enrolled, but its credentials are lost: %w", output.Plain(made.Region.ID), err),
				"edge region revoke %s, and enrol it again", output.Plain(made.Region.ID))
		}
		return c.Line(map[string]any{"id": made.Region.ID, "files": *out},
			fmt.Sprintf("%s\t%s in %s", output.Plain(made.Region.ID), files, output.Plain(*out)))
	}
}

// regionCAFile is the name of a region's own authorities.
const regionCAFile = "region-ca.pem"

// copyCA copies certificates to the files of a region.
func copyCA(from, dir string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return fmt.Errorf("%s holds no certificate in PEM", from)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, regionCAFile), text, 0o644)
}

func writeRegion(dir string, made adminapi.EnrolledRegion) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, file := range []struct {
		name, text string
		mode       os.FileMode
	}{
		{"region.creds", made.Credentials, 0o600}, {"region-system.creds", made.SystemCredentials, 0o600}, {"region.conf", made.Config, 0o644},
	} {
		if err := durable.WriteFile(filepath.Join(dir, file.name), []byte(file.text), file.mode); err != nil {
			return err
		}
	}
	return nil
}

// listRegions returns the NATS servers of regions that are not revoked, by region. An
// older origin has none.
func listRegions(ctx context.Context, admin *adminapi.Client) (regions []adminapi.Region, err error) {
	for r, err := range adminapi.All[adminapi.Region](ctx, admin, "/regions", nil) {
		if refused, answered := errors.AsType[*adminapi.Error](err); answered && refused.Status == http.StatusNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if r.RevokedAt.IsZero() {
			regions = append(regions, r)
		}
	}
	slices.SortFunc(regions, func(a, b adminapi.Region) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.ID, b.ID))
	})
	return regions, nil
}

// printRegions prints the NATS servers of regions below the nodes, where there are any.
func printRegions(w io.Writer, regions []adminapi.Region) {
	if len(regions) == 0 {
		return
	}
	fmt.Fprintln(w, "\nREGION\tNATS SERVER\tSTATE\tNODES UP")
	for _, r := range regions {
		state := "-" // a cluster takes them
		switch {
		case r.Connected == nil:
		case *r.Connected:
			state = "up"
		default:
			state = "away"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d of %d\n", output.Plain(cmp.Or(r.Region, "all")), output.Plain(r.ID), state, r.NodesConnected, r.Nodes)
	}
}

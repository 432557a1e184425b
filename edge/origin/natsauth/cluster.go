package natsauth

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"

	"partneredge/edge/wire"
	"partneredge/store/durable"
)

// ClusterFile is the file that every server of a NATS cluster includes.
const ClusterFile = "cluster.conf"

// clusterForm is the content of ClusterFile: the trusted operator, the resolver
// of accounts and their revocations, and the limits of the embedded server. The
// resolver's directory is below the one where the server was started.
const clusterForm = `# Made by edge origin. Each server of the cluster includes it.
operator: %s
system_account: %s
resolver: { type: full, dir: "./jwt" }
resolver_preload: {
	%s: %s
	%s: %s
}
max_payload: %d
max_pending: %d
ping_interval: "20s"
write_deadline: "10s"
`

// signOperator returns the operator's own signed JWT.
func (a *Authority) signOperator() (string, error) {
	claims := jwt.NewOperatorClaims(a.OperatorID)
	claims.Name = "edge"
	claims.SystemAccount = a.SystemID
	return claims.Encode(a.operator)
}

// WriteCluster writes to dir what the servers of a NATS cluster need: ClusterFile,
// and the same as separate files, operator.jwt, system.jwt and account.jwt.
func (a *Authority) WriteCluster(dir string, revoked map[string]time.Time) error {
	operator, err := a.signOperator()
	if err != nil {
		return err
	}
	_, account, err := a.SignAccount(revoked)
	if err != nil {
		return err
	}
	system, err := a.SignSystem()
	if err != nil {
		return err
	}
	for file, text := range map[string]string{
		"operator.jwt": operator + "\n", "account.jwt": account + "\n", "system.jwt": system + "\n",
		ClusterFile: fmt.Sprintf(clusterForm, operator, a.SystemID, a.SystemID, system, a.AccountID, account, wire.MaxPayload, MaxPending),
	} {
		if err := durable.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

package natsauth

import (
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"

	"partneredge/store/durable"
)

// ClusterFile is the file that every server of a NATS cluster includes.
const ClusterFile = "cluster.conf"

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
	c, err := a.newConf("Each server of the cluster", revoked)
	if err != nil {
		return err
	}
	for file, text := range map[string]string{
		"operator.jwt": c.Operator + "\n", "account.jwt": c.Account + "\n", "system.jwt": c.System + "\n", ClusterFile: c.text(),
	} {
		if err := durable.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

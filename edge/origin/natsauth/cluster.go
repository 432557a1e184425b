package natsauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"

	"partneredge/store/durable"
)

// ClusterFile is the file that every server of a NATS cluster includes.
const ClusterFile = "cluster.conf"

// RoutePassword is the file of the password by which the servers of a NATS cluster know each
// other. To servers that ask for none any other one may connect, and hear and say everything.
const RoutePassword = "route.password"

// signOperator returns the operator's own signed JWT.
func (a *Authority) signOperator() (string, error) {
	claims := jwt.NewOperatorClaims(a.OperatorID)
	claims.Name = "edge"
	claims.SystemAccount = a.SystemID
	return claims.Encode(a.operator)
}

// WriteCluster writes to dir what the servers of a NATS cluster need: ClusterFile,
// the same as separate files, operator.jwt, system.jwt and account.jwt, and RoutePassword.
func (a *Authority) WriteCluster(dir string, revoked map[string]time.Time) error {
	c, err := a.newConf("Each server of the cluster", revoked)
	if err != nil {
		return err
	}
	password, err := a.routePassword()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(dir, RoutePassword), []byte(password+"\n"), 0o600); err != nil {
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

// routePassword returns the content of RoutePassword, which is the same at each origin with
// these keys.
func (a *Authority) routePassword() (string, error) {
	seed, err := a.account.Seed()
	if err != nil {
		return "", fmt.Errorf("making the password of routes: %w", err)
	}
	mac := hmac.New(sha256.New, seed)
	mac.Write([]byte("route"))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

package broker

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"partneredge/edge/logging"
	"partneredge/edge/wire"
)

// The most connections of one user. A node has one, a second while another process takes its
// place, and perhaps some that broke unnoticed. Credentials that name no region are of an
// earlier program, and may be shared by the servers of all regions.
const (
	connectionsOfUser   = 4
	connectionsOfShared = 64
)

// users bounds the connections of each user, as the server has up to natsauth.MaxPending
// wait for each. The oldest connection is closed, as it is the likeliest to be broken.
type users struct {
	server  *server.Server
	limited *logging.Limiter
	conn    *nats.Conn          // to the system account
	open    map[string][]uint64 // ids of connections by user, the oldest first; of the subscription alone
}

// boundUsers has a users told of connections until its own is closed.
func (e *embedded) boundUsers() (*users, error) {
	credentials, err := e.authority.SystemUser()
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect("", nats.InProcessServer(e.Server), nats.UserCredentialBytes([]byte(credentials)),
		nats.Name("origin system"), nats.Timeout(startTime), nats.MaxReconnects(-1))
	if err != nil {
		return nil, err
	}
	u := &users{server: e.Server, limited: e.limited, conn: conn, open: make(map[string][]uint64)}
	if _, err = conn.Subscribe("$SYS.ACCOUNT."+e.authority.AccountID+".*", u.hear); err == nil {
		err = conn.Flush()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return u, nil
}

// hear takes in that a connection began or ended.
func (u *users) hear(m *nats.Msg) {
	var event struct {
		Type   string            `json:"type"`
		Client server.ClientInfo `json:"client"`
	}
	if json.Unmarshal(m.Data, &event) != nil {
		return
	}
	user, id := event.Client.User, event.Client.ID
	switch event.Type {
	case server.ConnectEventMsgType:
		most := connectionsOfShared
		if slices.ContainsFunc(event.Client.Tags, func(tag string) bool { return strings.HasPrefix(tag, wire.RegionTag) }) {
			most = connectionsOfUser
		}
		u.open[user] = append(u.open[user], id)
		for _, oldest := range u.open[user][:max(0, len(u.open[user])-most)] {
			u.limited.Warn("connections "+user, "a NATS user has too many connections, so the oldest is closed",
				"user", user, "tags", event.Client.Tags, "most", most)
			_ = u.server.DisconnectClientByID(oldest) // which fails where it has ended by itself
		}
	case server.DisconnectEventMsgType:
		open := slices.DeleteFunc(u.open[user], func(other uint64) bool { return other == id })
		if u.open[user] = open; len(open) == 0 {
			delete(u.open, user)
		}
	}
}

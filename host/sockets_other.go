//go:build !unix

package host

import (
	"time"
)

// socketsOffered: modules may have no allow_dial on this system.
const socketsOffered = false

var socketCalls map[string]socketCall

// sockets are none.
type sockets struct{ found resolved }

func (c *call) network() *sockets { return &sockets{found: resolved{}} }

func (*sockets) has(uint32) bool { return false }
func (*sockets) close()          {}

func (*call) pollSockets([][]byte, time.Duration, func([]byte, errno)) {}

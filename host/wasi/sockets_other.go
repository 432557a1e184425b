//go:build !unix

package wasi

import "time"

// socketsOffered reports whether modules may have an allow_dial on this system.
const socketsOffered = false

var socketFuncs map[string]socketFunc

type sockets struct{ resolved resolved }

func (c *Call) network() *sockets { return &sockets{resolved: resolved{}} }

func (*sockets) has(uint32) bool { return false }
func (*sockets) close()          {}

func (*Call) pollSockets([]subscription, time.Duration, *events) {}

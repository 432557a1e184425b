package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"partneredge/edge/backoff"
	"partneredge/scripts/bench/fleet"
)

const (
	greedy       = 3000 // connections that the greedy address tries to hold
	others       = 100
	othersWithin = 10 * time.Second // for which each of the others waits
)

// heldConnections opens as many connections from one address as it can, leaves a request
// unfinished on each, and counts how many of 100 clients with other addresses
// are served meanwhile.
func (b *bench) heldConnections(ctx context.Context) (err error) {
	r, err := b.region(ctx, "others_served", fleet.RegionConfig{Nodes: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	_, key, err := r.Admin.Key(ctx, r.Account, 1_000_000)
	if err != nil {
		return err
	}
	if err := r.Warm(ctx, "agents/me", key); err != nil {
		return err
	}
	held, err := holdConnections(ctx, strings.TrimPrefix(r.Nodes[0].URL(), "http://"))
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	if err != nil {
		return err
	}
	served := make(chan struct{}, others)
	var clients sync.WaitGroup
	for i := range others {
		clients.Go(func() {
			client := http.Client{Timeout: othersWithin, Transport: &http.Transport{DialContext: dialFrom(net.IPv4(127, 1, byte(i), 1)).DialContext}}
			defer client.CloseIdleConnections()
			status, _, _ := fleet.Send(ctx, &client, r.Nodes[0].URL()+fleet.API+"agents/me", fleet.Bearer(key), nil)
			if status == http.StatusOK {
				served <- struct{}{}
			}
		})
	}
	clients.Wait()
	b.Printf("others_served: one address opened %d connections", len(held))
	b.Figure("others_served", float64(len(served)), "clients")
	return nil
}

// dialFrom returns a dialer that connects from an address of this machine.
func dialFrom(address net.IP) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: address}}
}

// holdConnections opens connections from one address, each with half a request. The
// node closes those beyond its bound.
func holdConnections(ctx context.Context, address string) (held []net.Conn, err error) {
	dialer := dialFrom(net.IPv4(127, 0, 0, 2))
	for range greedy {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return held, fmt.Errorf("hold connections: %w", err)
		}
		held = append(held, conn)
		_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n")) // may be closed already
	}
	return held, backoff.Pause(ctx, guessSettle)
}

// Package hosts checks host names: the Host header of requests to listeners that ask for no
// key, and the addresses of NATS servers.
package hosts

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
)

// Exposed reports whether a NATS URL, or one of several by comma, leads off this machine
// without TLS: whoever is on the way can read and change what goes there. A URL without
// a scheme is nats://.
func Exposed(urls string) bool {
	return slices.ContainsFunc(strings.Split(urls, ","), func(one string) bool {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		u, err := url.Parse(one)
		if err != nil || u.Scheme == "tls" || u.Scheme == "wss" {
			return false
		}
		at, err := netip.ParseAddr(u.Hostname())
		return u.Hostname() != "localhost" && (err != nil || !at.Unmap().IsLoopback())
	})
}

// IsLocal reports whether the Host of a request is an address, with or without a port,
// or localhost. No other site can have such a host resolve to this machine, as it can
// its own name (DNS rebinding).
func IsLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Guard refuses with 421 the requests that come from this machine itself under a host
// that is neither local nor the machine's own name, since a browser may have been led here
// by another site's page. Requests from other machines may use any name.
func Guard(next http.Handler) http.Handler {
	own, err := os.Hostname()
	if err != nil {
		own = "" // then the machine is asked by address
	}
	return guard(own, next)
}

func guard(own string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err == nil && from.Addr().Unmap().IsLoopback() && !IsLocal(r.Host) && !isOwn(r.Host, own) {
			http.Error(w, "ask for this by address, as localhost, or by the name of this machine", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isOwn reports whether the Host of a request is the name of this machine, or the first
// part of it: /etc/hosts often leads both to a loopback address.
func isOwn(host, own string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host, own = strings.TrimSuffix(host, "."), strings.TrimSuffix(own, ".")
	short, _, _ := strings.Cut(own, ".")
	return own != "" && (strings.EqualFold(host, own) || strings.EqualFold(host, short))
}

package contract

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
)

// Handler returns a Target.Send that calls h in this process.
func Handler(h http.Handler) func(*http.Request, netip.Addr) (*http.Response, error) {
	return func(req *http.Request, client netip.Addr) (*http.Response, error) {
		served := req.Clone(req.Context())
		served.RequestURI = req.URL.RequestURI()
		served.Host = "partner.example"
		served.RemoteAddr = netip.AddrPortFrom(client, 40000).String()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, served)
		return w.Result(), nil
	}
}

// Server returns a Target.Send that sends over HTTP to base, such as
// https://127.0.0.1:8443. config may be nil. Each request has a connection of its
// own from the client's address, which a server on loopback sees. So
// Target.Clients can be true for it if the system allows all of 127.0.0.0/8.
func Server(base string, config *tls.Config) func(*http.Request, netip.Addr) (*http.Response, error) {
	type key struct{}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   config,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			var d net.Dialer
			if host, _, err := net.SplitHostPort(address); err == nil {
				if to, err := netip.ParseAddr(host); err == nil && to.IsLoopback() && to.Is4() {
					d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(ctx.Value(key{}).(netip.Addr), 0))
				}
			}
			return d.DialContext(ctx, network, address)
		},
	}
	return func(req *http.Request, client netip.Addr) (*http.Response, error) {
		to, err := url.Parse(base + req.URL.RequestURI())
		if err != nil {
			return nil, fmt.Errorf("send request: %w", err)
		}
		sent := req.Clone(context.WithValue(req.Context(), key{}, client))
		sent.URL, sent.Host = to, to.Host
		return transport.RoundTrip(sent)
	}
}

package authoring

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// upstreams are servers on loopback that stand for those of a module's allow_dial.
type upstreams struct {
	servers []*upstream
}

// upstream is one of them.
type upstream struct {
	Upstream
	at       netip.AddrPort // an address for documentation (RFC 5737) that the module sees
	override atomic.Pointer[Upstream]
	asked    atomic.Bool // somebody connected

	listener net.Listener
	server   *http.Server
	serving  sync.WaitGroup
}

// startUpstreams starts the servers of cases; dir is the module's folder.
func startUpstreams(dir string, list []Upstream) (*upstreams, error) {
	all := new(upstreams)
	for i, one := range list {
		at := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
		if same := all.ofHost(one.host()); same != nil {
			at = same.at.Addr() // a server that listens at several ports
		}
		u, err := startUpstream(dir, one, at)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("starting the upstream %s: %w", one.Address, err), all.close())
		}
		all.servers = append(all.servers, u)
	}
	return all, nil
}

func startUpstream(dir string, description Upstream, at netip.Addr) (*upstream, error) {
	host, port, err := net.SplitHostPort(description.Address)
	if err != nil {
		return nil, err
	}
	if own, err := netip.ParseAddr(host); err == nil {
		at = own
	}
	u := &upstream{Upstream: description}
	if u.at, err = netip.ParseAddrPort(net.JoinHostPort(at.String(), port)); err != nil {
		return nil, err
	}
	if u.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	listener := u.listener
	if u.Certificate != "" {
		certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, u.Certificate), filepath.Join(dir, u.Key))
		if err != nil {
			return nil, errors.Join(err, u.listener.Close())
		}
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}})
	}
	// What goes wrong with a connection is the module's to say.
	u.server = &http.Server{Handler: u, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	u.server.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateNew {
			u.asked.Store(true)
			if u.current().Down {
				_ = conn.Close()
			}
		}
	}
	u.serving.Go(func() { _ = u.server.Serve(listener) })
	return u, nil
}

func (u *upstream) current() *Upstream {
	if o := u.override.Load(); o != nil {
		return o
	}
	return &u.Upstream
}

// ServeHTTP answers as the case says, or else as all cases say.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := r.Method + " " + r.URL.RequestURI()
	answer, ok := u.current().Answers[asked]
	if !ok {
		answer, ok = u.Answers[asked]
	}
	if !ok {
		http.Error(w, "cases.json has no answer to "+asked, http.StatusNotFound)
		return
	}
	select {
	case <-time.After(time.Duration(answer.Delay)):
	case <-r.Context().Done(): // the module went away
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for name, value := range answer.Headers {
		w.Header().Set(name, value)
	}
	if answer.Status != 0 {
		w.WriteHeader(answer.Status)
	}
	_, _ = io.WriteString(w, bodyText(answer.Body))
}

// use makes the upstreams answer as a case wants.
func (a *upstreams) use(list []Upstream) error {
	for _, u := range a.servers {
		u.override.Store(nil)
	}
	for i := range list {
		n := slices.IndexFunc(a.servers, func(u *upstream) bool { return u.Address == list[i].Address })
		if n < 0 {
			return fmt.Errorf("upstream %s: the file names no such upstream beside its cases", list[i].Address)
		}
		a.servers[n].override.Store(&list[i])
	}
	return nil
}

// host returns the host of the upstream's address, "" if that has none.
func (u *Upstream) host() string {
	host, _, _ := net.SplitHostPort(u.Address)
	return host
}

// ofHost returns one of the upstreams that stand for a host, nil if none does. Those at its
// other ports have the same address.
func (a *upstreams) ofHost(name string) *upstream {
	for _, u := range a.servers {
		if strings.EqualFold(u.host(), name) {
			return u
		}
	}
	return nil
}

// lookUp is a host.Config.LookUp.
func (a *upstreams) lookUp(_ context.Context, name string) ([]netip.Addr, error) {
	u := a.ofHost(name)
	if u == nil {
		return nil, fmt.Errorf("looking up %s: no upstream of cases.json stands for it", name)
	}
	return []netip.Addr{u.at.Addr()}, nil
}

func (a *upstreams) find(addr netip.AddrPort) *upstream {
	for _, u := range a.servers {
		if u.at == addr {
			return u
		}
	}
	return nil
}

// check is a host.Config.CheckDial.
func (a *upstreams) check(addr netip.AddrPort) error {
	if a.find(addr) == nil {
		return fmt.Errorf("no upstream of cases.json stands for %s", addr)
	}
	return nil
}

// redirect is a host.Config.Redirect.
func (a *upstreams) redirect(addr netip.AddrPort) netip.AddrPort {
	return a.find(addr).listener.Addr().(*net.TCPAddr).AddrPort()
}

// wasAsked reports whether a module connected to an address of its allow_dial.
func (a *upstreams) wasAsked(address string) bool {
	return slices.ContainsFunc(a.servers, func(u *upstream) bool {
		return strings.EqualFold(u.Address, address) && u.asked.Load()
	})
}

// close ends the servers.
func (a *upstreams) close() (err error) {
	for _, u := range a.servers {
		err = errors.Join(err, u.server.Close())
		u.serving.Wait()
	}
	return err
}

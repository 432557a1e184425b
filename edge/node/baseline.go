package node

import (
	"context"
	"net/http"

	"partneredge/edge/node/openapi"
	"partneredge/wasm/httpfront"
)

// ServeModules serves modules, which may be plain Go, as a node serves those of its
// sandboxes: with its listener, limits, timeouts, log and metrics. Of c, only Listen,
// TLSCert, TLSKey, TrustedProxies, the timeouts of requests, Tracer, Version, Log and
// Now count. A benchmark compares a node with it. stop lets requests under way end,
// until ctx does.
func ServeModules(c Config, modules *httpfront.Modules) (url string, stop func(ctx context.Context) error, err error) {
	c.setDefaults()
	n := newNode(c)
	front := n.moduleFront(nil)
	front.Modules = modules
	docs := openapi.Handler()
	api := n.partnerAPI(httpfront.New(front), func() http.Handler { return docs })
	tlsConfig, err := c.tls(&n.metrics.expiry)
	if err != nil {
		return "", nil, err
	}
	l, err := listen(c.Listen, tlsConfig, api, c)
	if err != nil {
		return "", nil, err
	}
	return l.url, l.stop, nil
}

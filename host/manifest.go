package host

import "partneredge/wasm/abi"

// Manifest says what a module is and what it may do. It lies beside the module
// as <name>.json.
type Manifest struct {
	// Name of the module: gate, or the handler's name that a gate's answer names.
	Name string `json:"name"`
	// Capabilities granted. None by default.
	Capabilities []abi.Capability `json:"capabilities"`
	// Headers are the names of the request headers that the front passes to the
	// module, in lower case. None by default.
	Headers []string `json:"headers"`
	// AllowDial are the host:port pairs the module may connect to over TCP. A
	// host is a name, which the host program looks up, or an address; it must be
	// where Config.CheckDial lets modules connect to. None by default: the guest
	// is refused sockets (ENOTSUP).
	AllowDial []string `json:"allow_dial,omitempty"`
	// Warmup are requests that the module answers before its image is taken, in
	// order, so that what it makes on its first requests is in the image. Each
	// has a made-up principal, and every operation a made-up answer. By default
	// there is one: GET /.
	Warmup []Warmup `json:"warmup,omitempty"`
}

// Warmup is one request of a warm-up.
type Warmup struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Query   string            `json:"query,omitempty"`
	Param   string            `json:"param,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

// Package host runs WebAssembly modules that answer HTTP-like requests. No request
// can see a trace of another, no module can take a node down, and a call costs
// microseconds.
//
// # A module
//
// A module is a WASI preview 1 reactor with the exports of package wasm/abi: it
// reads a request frame and writes a response frame. Any compiler can make one; with
// Go it needs package wasm/guest and
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o module.wasm .
//
// A Runtime opens it, with a Manifest that says what it may do, the Capabilities
// behind that, and Limits:
//
//	runtime, err := host.New(ctx, host.Config{CacheDir: dir, Log: log})
//	module, err := runtime.Open(ctx, wasm, manifest, capabilities, host.Limits{})
//	err = module.Call(ctx, &request, &response)
//	…
//	err = runtime.Close(ctx)
//
// # The image and its sandboxes
//
// When a module is opened, it is prepared (package prepare), compiled, started, and
// warmed up with made-up requests (Manifest.Warmup). All of its memory and globals
// are then its image. Each request runs in a sandbox: an instance that is, byte for
// byte, the image. After the request the sandbox is reset to the image (package
// memory), which costs what the request wrote. A sandbox whose call failed, whose
// memory grew, or that changed what cannot be reset, such as a table, is closed, and
// another is made in the background.
//
// Randomness and time in an image would be the same for every request. Those that a
// request brings are fresh (abi.Request), and so are WASI's. What the warm-up leaves
// in an image is made up: there is nobody's data in it.
//
// # What a module may do
//
// WASI (package wasi) offers clocks, random numbers, a log (standard output and
// error) and, to modules with an allow_dial, connections over TCP. There are no
// files, no environment, no arguments, and nothing that lasts.
//
// An operation of the ABI needs its capability in the module's manifest, and where it
// acts on an account the contract's scope for it (abi.Op.Scope) in the principal that
// the caller put into the request. Without either the guest gets abi.CodeDenied, and
// the first time a line is logged.
//
// A module whose manifest has an allow_dial may connect to the hosts named there, by
// the socket functions of WasmEdge's extension of WASI, which
// github.com/stealthrocket/net/wasip1 calls in Go's guests (build them with the tag
// getaddrinfo). The host looks names up, for a second each at most, and Config.CheckDial
// judges each address that is connected to; by default it refuses them all. The guest
// sees a refusal (EACCES; without an allow_dial ENOTSUP), and the first of its kind
// is logged. Waiting for a connection is not charged as computing, and connections
// end with the request. There is no listening, no UDP and, in the warm-up, no
// connection at all.
//
// # Limits
//
// Whatever a guest does ends by its limits: processor time, time, memory, response
// size, calls to the host, log, bytes over sockets. Then Call returns an *Error whose
// Reason names the limit, and the log has one record. A front answers each with a
// status of 500 and no detail; for ErrBusy it may say when to retry.
//
// The host regains control at least every few milliseconds of a guest's computing: under
// wazero when the guest's fuel runs out, typically after 20 us, under wasmtime after two to
// three milliseconds. A guest that spins overruns its deadline by no more than that. Only
// wazero's guests delay Go's garbage collector, and by as little.
//
// The memory of all sandboxes together has a ceiling, Config.Memory. There, idle sandboxes make
// room for a module whose calls wait, if all of them together are enough. The memory of one
// sandbox stays with each module, and half of the ceiling is the most that one of several gets.
//
// # Engines
//
// An engine (package engine) makes machine code and runs it; package wazero is the
// default. Package memory has more than one way to reset memory; New picks the best
// that the machine has, and logs it.
package host

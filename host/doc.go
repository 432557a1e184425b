// Package host runs WebAssembly modules that answer HTTP-like requests, so that
// no request can see a trace of another, no module can take a node down, and
// this costs microseconds.
//
// # A module
//
// A module is a WASI preview 1 reactor with the exports of package wasm/abi: it
// takes a request frame and gives a response frame. It can be made by any
// compiler; with Go it takes package wasm/guest and
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o module.wasm .
//
// A Runtime opens it, with a Manifest that says what it may do, the
// Capabilities behind that, and Limits:
//
//	runtime, err := host.New(ctx, host.Config{CacheDir: dir, Log: log})
//	module, err := runtime.Open(ctx, wasm, manifest, capabilities, host.Limits{})
//	err = module.Call(ctx, &request, &response)
//	…
//	err = runtime.Close(ctx)
//
// # What a request starts from
//
// When it is opened, a module is prepared (package prepare), compiled, started
// and warmed up with made-up requests (Manifest.Warmup). What it then is, all of
// its memory and globals, is its image. Each request runs in a sandbox: an
// instance that is, byte for byte, the image. After the request the sandbox is
// taken back to it (package memory), which costs what the request wrote.
// A sandbox whose call failed, whose memory grew, or that changed what cannot
// be taken back, such as a table, is given up, and another made in the
// background.
//
// Randomness and time in an image would be the same for every request. Those
// that a request is given are fresh (abi.Request), and so are WASI's. What an
// image holds of its warm-up is made up: there is nobody's data in it.
//
// WASI offers clocks, random numbers, a log (standard output and error) and, to
// modules that are granted them, connections. There are no files, no
// environment, no arguments, and nothing that lasts.
//
// # What a module may do
//
// An operation of the ABI needs the capability that is named there to be in the
// module's manifest. Without it, the guest gets abi.CodeDenied, and the first
// time the log says so. Operations on an account act on the principal that the
// caller put into the request.
//
// A module whose manifest has an allow_dial may connect to what is named there,
// over TCP: by the socket functions of WasmEdge's extension of WASI, which
// github.com/stealthrocket/net/wasip1 calls in Go's guests (build them with the
// tag getaddrinfo). The host looks names up, and Config.CheckDial judges each
// address that is connected to; by default those that are not public are
// refused. The guest sees a refusal (EACCES; without an allow_dial ENOTSUP), and
// the first of its kind is logged. Connections wait without computing, and end
// with the request. There is no listening, no UDP and, in the warm-up, no world.
//
// # Limits
//
// Whatever a guest does ends by its limits: processor time, time at all, memory,
// response size, calls to the host, log, bytes over sockets. Then Call returns an *Error, of which
// Reason tells the limit, and the log has one record. A front answers each with
// a status of 500 and tells no more; for ErrBusy it may say when to come again.
// Guests give up the processor by themselves, every few microseconds, whether
// they like it or not: a guest that spins neither outlives its deadline nor
// holds up Go's garbage collector.
//
// The memory of all sandboxes together has a ceiling, Config.Memory.
//
// # Engines
//
// Machine code is made and run by an engine (package engine); package wazero is
// the default one. Package memory has more than one way to take memory back;
// New picks the best that the machine has, and says so in the log.
package host

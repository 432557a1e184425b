// Httpwasm is the guest as a handler of http-wasm, by the ABI of its version 0.7. The
// package that its authors offer to guests is for TinyGo only, so the functions are
// declared here.
package main

import (
	"strings"
	"unsafe"

	"partneredge/scripts/bench/http/peers/guest"
	"partneredge/wasm/abi"
)

// Kinds of headers and bodies.
const (
	ofRequest  = 0
	ofResponse = 1
)

//go:wasmimport http_handler get_method
//go:noescape
func getMethod(at unsafe.Pointer, room uint32) uint32

//go:wasmimport http_handler get_uri
//go:noescape
func getURI(at unsafe.Pointer, room uint32) uint32

//go:wasmimport http_handler get_source_addr
//go:noescape
func getSourceAddr(at unsafe.Pointer, room uint32) uint32

//go:wasmimport http_handler get_header_values
//go:noescape
func getHeaderValues(kind uint32, name unsafe.Pointer, nameLen uint32, at unsafe.Pointer, room uint32) uint64

//go:wasmimport http_handler set_header_value
//go:noescape
func setHeaderValue(kind uint32, name unsafe.Pointer, nameLen uint32, value unsafe.Pointer, valueLen uint32)

//go:wasmimport http_handler set_status_code
func setStatusCode(status uint32)

//go:wasmimport http_handler write_body
//go:noescape
func writeBody(kind uint32, at unsafe.Pointer, length uint32)

var (
	service = guest.New()
	room    [4096]byte
)

// text returns what get writes, "" if that is longer than there is room for.
func text(get func(unsafe.Pointer, uint32) uint32) string {
	n := get(unsafe.Pointer(&room), uint32(len(room)))
	if n > uint32(len(room)) {
		return ""
	}
	return string(room[:n])
}

func at(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }

//go:wasmexport handle_request
func handleRequest() int64 {
	req := abi.Request{Method: text(getMethod)}
	req.Path, req.Query, _ = strings.Cut(text(getURI), "?")
	client := text(getSourceAddr)
	req.Client = client[:max(0, strings.LastIndexByte(client, ':'))]
	const name = "authorization"
	found := getHeaderValues(ofRequest, at(name), uint32(len(name)), unsafe.Pointer(&room), uint32(len(room)))
	if count, size := found>>32, uint32(found); count > 0 && size <= uint32(len(room)) {
		for value := range strings.SplitSeq(strings.TrimSuffix(string(room[:size]), "\x00"), "\x00") {
			req.Headers = append(req.Headers, abi.Header{Name: name, Value: value})
		}
	}
	var resp abi.Response
	service.Handle(&req, &resp)
	resp.Headers = append(resp.Headers, abi.Header{Name: "content-type", Value: "application/json"},
		abi.Header{Name: "content-length", Value: resp.Decimal(int64(len(resp.Body)))})
	for _, h := range resp.Headers {
		setHeaderValue(ofResponse, at(h.Name), uint32(len(h.Name)), at(h.Value), uint32(len(h.Value)))
	}
	setStatusCode(uint32(resp.Status))
	writeBody(ofResponse, unsafe.Pointer(unsafe.SliceData(resp.Body)), uint32(len(resp.Body)))
	return 0 // answered: no next handler
}

//go:wasmexport handle_response
func handleResponse(int32, int32) {}

func main() {}

// Rates answers with the mortgage rate of a term, for which it asks another server
// over HTTPS. It gives that server less time than the host gives the request, so that
// it still answers when the server does not.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/valyala/fastjson"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
	"partneredge/wasm/guest"
)

// upstream is the server that is asked. It is in the manifest's allow_dial.
const upstream = "https://rates.example/v1/mortgage?years="

// patience bounds the time that the upstream may take. A host ends a call after 10 s.
const patience = 2 * time.Second

// maxAnswer bounds what is read of the upstream's answer, in bytes.
const maxAnswer = 4 << 10

// roots are the certificates that the upstream's must be signed by: a module has no
// files, and so none of the system's.
//
//go:embed roots.pem
var roots []byte

var client = newClient()

func init() {
	guest.Handle(handle)
	// A sandbox whose memory grows in a call is closed after it. So the image has room for
	// a TLS connection, which takes some 650 KiB and is not made in the warm-up.
	runtime.KeepAlive(make([]byte, 1<<20))
	runtime.GC()
}

func main() {}

func newClient() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	return &http.Client{Transport: &http.Transport{
		DialContext:     dial,
		TLSClientConfig: &tls.Config{RootCAs: pool},
		// The connection ends with the request.
		DisableKeepAlives: true,
	}}
}

func handle(req *abi.Request, resp *abi.Response) {
	term, err := strconv.Atoi(req.Param("years"))
	if err != nil || term < 1 || term > 50 {
		answer.Error(resp, 400, "invalid_parameter", "years_not_1_to_50")
		return
	}
	rate, err := ask(term)
	if err != nil {
		guest.Log(8, err.Error()) // partners are not told why
		answer.ErrorAfter(resp, 502, "upstream_failed", "", 1000)
		return
	}
	resp.Status = 200
	resp.Body = fmt.Appendf(resp.Body, `{"years":%d,"rate_percent":%g}`, term, rate)
}

// ask returns the rate of a term, of which the upstream answers {"rate": 6.25}.
func ask(term int) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, upstream+strconv.Itoa(term), nil)
	if err != nil {
		return 0, fmt.Errorf("asking the upstream: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("asking the upstream: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("asking the upstream: %s", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, fmt.Errorf("reading the upstream's answer: %w", err)
	}
	parsed, err := fastjson.ParseBytes(body)
	if err != nil {
		return 0, fmt.Errorf("reading the upstream's answer: %w", err)
	}
	return parsed.Get("rate").Float64()
}

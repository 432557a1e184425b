package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	uploadMost = 10 * time.Second // for one request to the collector
	retryAfter = 5 * time.Second  // where the collector does not say when, and doubled each time
	answerMost = 4 << 10          // bytes read of an answer
)

// uploader is an otlptrace.Client. That of OpenTelemetry, otlptracehttp, has all of gRPC
// compiled and linked, of which OTLP over HTTP needs nothing.
type uploader struct {
	url    string
	header http.Header
	client *http.Client
}

// newUploader returns an uploader to a collector's URL, which sends the headers that
// OpenTelemetry's own variables name, such as a hosted collector's key.
func newUploader(to, version string) *uploader {
	u := &uploader{url: to, header: http.Header{}, client: &http.Client{Timeout: uploadMost}}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for pair := range strings.SplitSeq(os.Getenv(variable), ",") {
			name, value, _ := strings.Cut(pair, "=")
			if value, err := url.PathUnescape(strings.TrimSpace(value)); err == nil && strings.TrimSpace(name) != "" {
				u.header.Set(strings.TrimSpace(name), value)
			}
		}
	}
	u.header.Set("User-Agent", "partneredge/"+version)
	u.header.Set("Content-Type", "application/x-protobuf")
	return u
}

func (u *uploader) Start(context.Context) error { return nil }
func (u *uploader) Stop(context.Context) error  { return nil }

// UploadTraces sends spans, again for as long as ctx allows if the collector is busy.
func (u *uploader) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	// An ExportTraceServiceRequest, whose package needs gRPC, has the same bytes.
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	for pause := retryAfter; ; pause *= 2 {
		busy, after, err := u.post(ctx, body)
		if !busy {
			return err
		}
		if after < 0 {
			after = pause
		}
		if until, bounded := ctx.Deadline(); bounded && time.Until(until) < after {
			return err
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return err
		}
	}
}

// post sends a body once. If the collector is busy, after is how long it wants to be left
// alone, negative where it does not say.
func (u *uploader) post(ctx context.Context, body []byte) (busy bool, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	req.Header = u.header.Clone()
	resp, err := u.client.Do(req)
	if err != nil {
		return false, 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerMost))
	if err != nil {
		return false, 0, err
	}
	if resp.StatusCode/100 == 2 {
		// All that an answer may say is what was rejected, and why; two bytes say nothing.
		if len(text) > 2 && resp.Header.Get("Content-Type") == "application/x-protobuf" {
			return false, 0, fmt.Errorf("the collector takes a part of them: %q", text)
		}
		return false, 0, nil
	}
	err = fmt.Errorf("the collector answers %s: %q", resp.Status, text)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, unsaid := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
		if unsaid != nil {
			return true, -1, err
		}
		return true, time.Duration(seconds) * time.Second, err
	}
	return false, 0, err
}

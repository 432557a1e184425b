package webhook

import (
	"net/http"
	"testing"
	"time"
)

// TestHTTPHeader: every header of a message is sent under its canonical name, with its
// own value alone.
func TestHTTPHeader(t *testing.T) {
	headers := Message{EventID: "evt_1", EventType: "deal.stage_changed", Body: []byte("{}")}.Headers("dlv_1", time.Unix(1, 0), "secret")
	got := httpHeader(headers)
	if len(got) != len(headers) {
		t.Errorf("%d headers of %d", len(got), len(headers))
	}
	for name, value := range headers {
		values := got[http.CanonicalHeaderKey(name)]
		if len(values) != 1 || cap(values) != 1 || values[0] != value {
			t.Errorf("%s: %q, want %q", name, values, value)
		}
	}
}

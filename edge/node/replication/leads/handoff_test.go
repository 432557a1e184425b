package leads

import (
	"bytes"
	"strings"
	"testing"

	"partneredge/edge/wire"
)

// TestBatchesFit holds that no batch is too large for the origin.
func TestBatchesFit(t *testing.T) {
	var req wire.LeadsRequest
	for range maxBatch {
		body := bytes.Repeat([]byte("x"), maxBatchBytes/maxBatch+len(`,"key_hash":""`)+44) // with the hash that proven adds
		req.Raw = append(req.Raw, wire.RawLead{ID: strings.Repeat("i", 64), Body: body})
	}
	text, err := wire.Encode(&req)
	if err != nil {
		t.Fatal(err)
	}
	if most := wire.MaxBytes(wire.VerbLeads) * 3 / 4; len(text) > most {
		t.Errorf("a batch has %d bytes, more than %d", len(text), most)
	}
}

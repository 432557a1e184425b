package wire

import (
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/host"
	"partneredge/store"
)

// TestLargestMessages holds that what a node sends at most is well below what the origin
// takes. Of leads and of reports of spending the packages that make them know the most.
func TestLargestMessages(t *testing.T) {
	const id = "unit_01ARZ3NDEKTSV4RRFFQ69G5FAV"
	hash := make([]byte, 32)
	head := Head{Trace: "00-" + strings.Repeat("a", 32) + "-" + strings.Repeat("b", 16) + "-01"}
	digest := "sha256:" + strings.Repeat("f", 64)
	status := Status{Head: head, Region: strings.Repeat("r", 40), Build: strings.Repeat("b", 128), Traffic: fullTraffic()}
	counts := ReleaseCounts{Traffic: *fullTraffic(), Failures: make(map[string]uint64)}
	for _, reason := range host.Reasons() {
		counts.Failures[string(reason)] = 1 << 60
	}
	reason := strings.Repeat("\x01", 4<<10) // written as \u0001
	status.Running = &ReleaseStatus{Digest: digest, Version: strings.Repeat("1", 64), Counts: &counts}
	status.Candidate = &ReleaseStatus{Digest: digest, Version: strings.Repeat("1", 64), Reason: reason, Rollout: id, Counts: &counts}
	requests := RequestsReply{Head: head}
	for range MaxRequests {
		text := strings.Repeat("x", 128)
		requests.Requests = append(requests.Requests, AnsweredRequest{
			ID: id, At: time.Unix(1<<31, 123456000).UTC(), TookUS: 1 << 32, KeyID: id, AccountID: id,
			Method: "OPTIONS", Route: text, Status: 500, Code: text, Reason: text,
		})
	}
	lockouts := LockoutsReply{Head: head, All: 1 << 30}
	for range MaxLockouts {
		lockouts.Lockouts = append(lockouts.Lockouts, Lockout{Address: "2001:0db8:1234:1234:1234:1234:1234:1234/64", LeftMS: 1 << 32})
	}
	description := strings.Repeat("\x01", 500)
	largest := map[string]Message{
		VerbKey:  &KeyRequest{Head: head, Hash: hash, Bare: true, More: slices.Repeat([][]byte{hash}, MaxMoreKeys), Partial: true},
		VerbKeys: &KeysRequest{Head: head, Hashes: slices.Repeat([][]byte{hash}, MaxRefill), Partial: true},
		VerbView: &ViewRequest{Head: head, AccountID: id, KeyHash: hash, Kind: store.ChangeInsights, Since: time.Now(), Before: time.Now(), Limit: 1 << 30},
		VerbSubscribe: &SubscribeRequest{Head: head, KeyHash: hash, WithinMS: 1 << 30, Once: &Once{Name: digest, Digest: digest}, Subscription: store.Subscription{
			ID: id, AccountID: id, KeyID: id, Environment: store.Test, TargetURL: strings.Repeat("\x01", 2048), Secret: strings.Repeat("ab", 32),
			Events: slices.Repeat([]string{store.EventClientContacted}, 16), Description: &description, CreatedAt: time.Now(),
		}},
		VerbChanges:    &ChangesRequest{Head: head, Since: 1 << 62, History: id, Limit: MaxChanges},
		VerbRevoke:     &RevokeRequest{Head: head, AccountID: id, ID: strings.Repeat("x", 64), KeyHash: hash, Untold: true, Once: digest},
		VerbBlob:       &BlobRequest{Head: head, Digest: digest, Offset: 1 << 62},
		VerbSignatures: &SignaturesRequest{Head: head, Digest: digest},
		VerbStatus:     &status,
		VerbLockouts:   &lockouts,
		VerbRequests:   &requests,
	}
	for _, verb := range NodeVerbs() {
		if most := MaxBytes(verb); most <= 0 || most > MaxPayload {
			t.Errorf("%s may have %d bytes", verb, most)
		}
		if largest[verb] == nil && verb != VerbLeads && verb != VerbSpend {
			t.Errorf("no largest message of %s", verb)
		}
	}
	for verb, m := range largest {
		text, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if most := MaxBytes(verb) * 3 / 4; len(text) > most {
			t.Errorf("%s has %d bytes, more than %d", verb, len(text), most)
		}
	}
}

func fullTraffic() *Traffic {
	return &Traffic{Requests: 1 << 60, Errors: 1 << 60, Limited: 1 << 60, Latency: slices.Repeat([]uint64{1 << 60}, LatencyBuckets)}
}

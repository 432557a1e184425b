package wire

// MaxBytes bounds a message that a node publishes under a verb, in bytes. JSON takes many
// times its length to decode, so the origin decodes no message that is larger, and a node
// sends none. What an honest node can send is at most three quarters of it.
func MaxBytes(verb string) int {
	switch verb {
	case VerbKey, VerbView, VerbChanges, VerbRevoke, VerbBlob, VerbSignatures:
		return 16 << 10 // most have some 200 bytes, 1 + MaxMoreKeys hashes 3 KB
	case VerbKeys:
		return 48 << 10 // MaxRefill hashes: 24 KB
	case VerbSubscribe:
		return 48 << 10 // a target of 2048 bytes and a description of 500 characters, escaped: 16 KB
	case VerbStatus:
		return 64 << 10 // a reason and two histograms: 30 KB
	case VerbLockouts:
		return 128 << 10 // MaxLockouts: 80 KB
	case VerbRequests:
		return 512 << 10 // MaxRequests: 170 KB
	case VerbSpend:
		return 1 << 20 // 1000 keys of a report, or MaxUsageKeys: 400 KB
	case VerbLeads:
		return 2 << 20 // bodies of 1 MiB, in base64 if they may not be JSON: 1.4 MB
	}
	return 0 // a node publishes nothing else
}

package coaching

import "partneredge/wasm/abi"

const sampleNote = "This account has no coaching history yet: these are sample insights " +
	"(source \"fallback\"). They give way to the account's own after its first coaching run."

// samplesAt is 2025-01-01T00:00:00Z. The samples are always the same, for every
// account, so a partner who sends the newest created_at as since does not get
// them again.
const (
	samplesAt = 1_735_689_600_000_000
	hour      = 3_600_000_000
)

// samples returns the insights of an account without coaching history, newest
// first.
func samples() []abi.Insight {
	return []abi.Insight{
		{
			ID:       "ins_sample_3",
			Headline: "Call new leads back within five minutes",
			Detail:   "Leads who are called within five minutes of asking are far more likely to talk. Block time for it, or let a teammate take the first call.",
			Created:  samplesAt,
		},
		{
			ID:       "ins_sample_2",
			Headline: "Keep one evening a week for past clients",
			Detail:   "Most repeat and referral business comes from people you have already helped. A short call each quarter keeps you the agent they name.",
			Created:  samplesAt - hour,
		},
		{
			ID:       "ins_sample_1",
			Headline: "Set the weekly pace from the yearly goal",
			Detail:   "Divide the closings you want this year by your own conversion rates. The number of conversations a week that comes out is the one to watch.",
			Created:  samplesAt - 2*hour,
		},
	}
}

// samplesAfter returns the samples that since and limit select.
func samplesAfter(since int64, given bool, limit int) []abi.Insight {
	items := samples()
	n := 0
	for n < len(items) && n < limit && (!given || items[n].Created > since) {
		n++
	}
	return items[:n]
}

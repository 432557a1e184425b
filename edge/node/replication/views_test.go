package replication

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"partneredge/edge/wire"
	"partneredge/wasm/abi"
)

// Whatever is asked, the part that is held answers as the whole would, or says
// that it cannot.
func TestHeldFiringsAnswerLikeTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := make([]abi.Firing, rapid.IntRange(0, 12).Draw(t, "whole"))
		for i := range whole {
			whole[i].Triggered = int64(2 * (len(whole) - i)) // newest first
		}
		held := rapid.IntRange(0, len(whole)).Draw(t, "held")
		before := rapid.Int64Range(0, int64(2*len(whole)+2)).Draw(t, "before")
		limit := rapid.IntRange(1, 14).Draw(t, "limit")

		var want abi.Firings
		for _, f := range whole {
			if before != 0 && f.Triggered >= before {
				continue
			}
			if len(want.Items) == limit {
				want.More = true
				break
			}
			want.Items = append(want.Items, f)
		}
		got := abi.Firings{Items: whole[:held], More: held < len(whole)}
		if !older(&got, before, limit) {
			if held == len(whole) {
				t.Fatal("all are held, and it is not enough")
			}
			return
		}
		if got.More != want.More || len(got.Items) != len(want.Items) {
			t.Fatalf("%d, more %v; want %d, more %v", len(got.Items), got.More, len(want.Items), want.More)
		}
		for i := range got.Items {
			if got.Items[i].Triggered != want.Items[i].Triggered {
				t.Fatalf("item %d is %v, want %v", i, got.Items[i], want.Items[i])
			}
		}
	})
}

func TestNewer(t *testing.T) {
	items := []abi.Insight{{Created: 30}, {Created: 20}, {Created: 10}}
	for _, c := range []struct {
		since int64
		limit int
		want  int
	}{{0, 10, 3}, {0, 2, 2}, {10, 10, 2}, {9, 10, 3}, {30, 10, 0}, {0, 0, 0}} {
		if got := len(newer(items, c.since, c.limit)); got != c.want {
			t.Errorf("since %d, limit %d: %d items, want %d", c.since, c.limit, got, c.want)
		}
	}
}

// TestTextsOfViewsAreUTF8 holds what modules rely on, whatever the origin sends.
func TestTextsOfViewsAreUTF8(t *testing.T) {
	const bad = "\"a\xff\xed\xa0\x80\""
	var reply wire.ViewReply
	if err := wire.Decode([]byte(`{"v":`+strconv.Itoa(wire.Version)+`,"insights":[{"id":`+bad+`,"headline":`+bad+`,"detail":`+bad+`}],`+
		`"firings":[{"id":`+bad+`,"sentinel_name":`+bad+`,"action_taken":`+bad+`}]}`), &reply); err != nil {
		t.Fatal(err)
	}
	var insights abi.Insights
	var firings abi.Firings
	if err := errors.Join(insights.Parse(insightsFrame(reply.Insights, true)), firings.Parse(firingsFrame(reply.Firings, false))); err != nil {
		t.Fatal(err)
	}
	if len(insights.Items) != 1 || len(firings.Items) != 1 {
		t.Fatalf("%d insights and %d firings, want one of each", len(insights.Items), len(firings.Items))
	}
	i, f := insights.Items[0], firings.Items[0]
	for _, text := range []string{i.ID, i.Headline, i.Detail, f.ID, f.Name, f.Action} {
		if !strings.HasPrefix(text, "a\uFFFD") || !utf8.ValidString(text) {
			t.Errorf("the text %q", text)
		}
	}
}

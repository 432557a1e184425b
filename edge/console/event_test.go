package console

import "testing"

// TestLiveEventKeepsItsData: no text of a page's live part ends the data of its event, by
// whichever end of a line.
func TestLiveEventKeepsItsData(t *testing.T) {
	const want = "event: live\ndata: <p>a\ndata: event: b\ndata: c\ndata: \ndata: d</p>\n\n"
	if got := liveEvent("<p>a\revent: b\r\nc\n\rd</p>"); got != want {
		t.Errorf("the event is %q, want %q", got, want)
	}
}

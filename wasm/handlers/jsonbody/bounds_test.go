package jsonbody

import "testing"

// TestEscapedSurrogates tries the first and the last of each half of a pair, and
// what lies beside them.
func TestEscapedSurrogates(t *testing.T) {
	for text, want := range map[string]bool{
		`"\ud7ff"`: true, `"\ue000"`: true, `"\uffff"`: true, `"\u0001"`: true,
		`"\ud800\udc00"`: true, `"\ud800\udfff"`: true, `"\udbff\udc00"`: true, `"\udbff\udfff"`: true, `"\uDBFF\uDFFF"`: true,
		`"\ud800"`: false, `"\udbff"`: false, `"\udc00"`: false, `"\udfff"`: false, `"\ud800\ud7ff"`: false,
		`"\udc00\udc00"`: false, `9`: true, `90.9e-9`: true, `1:`: false, `1/`: false, `:`: false, `/`: false,
		`"\ud800\udbff"`: false, `"\ud800\ue000"`: false, `"\udbff\uffff"`: false, `"\udfff\udfff"`: false,
		`"\u00:0"`: false, `"\u00/0"`: false, `"\u00g0"`: false, "\"\\u00`0\"": false, `"\u00G0"`: false, `"\u00@0"`: false,
	} {
		if got := Valid([]byte(text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

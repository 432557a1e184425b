package typeid

import "testing"

// TestMake has the "valid" examples of the TypeID specification that are of
// version 7, split into time and random bytes.
func TestMake(t *testing.T) {
	for _, tt := range []struct {
		prefix string
		milli  int64
		random [10]byte
		want   string
	}{
		// 01890a5d-ac96-774b-bcce-b302099a8057
		{"prefix", 0x01890a5dac96, [10]byte{0x77, 0x4b, 0xbc, 0xce, 0xb3, 0x02, 0x09, 0x9a, 0x80, 0x57}, "prefix_01h455vb4pex5vsknk084sn02q"},
		{"a", 0, [10]byte{}, "a_0000000000e008000000000000"},
	} {
		if got := Make(tt.prefix, tt.milli, tt.random); got != tt.want {
			t.Errorf("Make(%q, %d) = %s, want %s", tt.prefix, tt.milli, got, tt.want)
		}
		if got, ok := UnixMilli(tt.want); !ok || got != tt.milli {
			t.Errorf("UnixMilli(%s) = %d, %t, want %d", tt.want, got, ok, tt.milli)
		}
	}
}

func TestUnixMilliRefuses(t *testing.T) {
	for _, id := range []string{
		"", "_", "lead_", "01h455vb4pex5vsknk084sn02q", "lead_01h455vb4pex5vsknk084sn02",
		"lead_01h455vb4pex5vsknk084sn02qq", "lead_81h455vb4pex5vsknk084sn02q", "lead_01h455vb4pex5vsknk084sn02u",
		"lead_01H455vb4pex5vsknk084sn02q",
	} {
		if milli, ok := UnixMilli(id); ok {
			t.Errorf("UnixMilli(%q) = %d, want it refused", id, milli)
		}
	}
}

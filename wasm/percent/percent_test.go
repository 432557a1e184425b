package percent

import (
	"net/url"
	"testing"
)

// FuzzDecode compares with net/url.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"", "plain", "a%2fb%20", "%4", "%", "%zz", "%ZZ", "%aF%Fa", "+", "%00%ff", "a%2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := Decode(s)
		if want, err := url.PathUnescape(s); got != want || ok != (err == nil) {
			t.Errorf("Decode(%q) = %q, %t; net/url: %q, %v", s, got, ok, want, err)
		}
	})
}

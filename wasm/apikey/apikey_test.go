package apikey

import (
	"hash/crc32"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"partneredge/wasm/abi"
)

// TestMint has checksums of another implementation of CRC-32.
func TestMint(t *testing.T) {
	var rising, passing [RandomSize]byte
	for i := range rising {
		rising[i] = byte(i)
		passing[i] = byte(247 + i%2) // every other byte is skipped
	}
	var none [RandomSize]byte
	for i := range none {
		none[i] = 248
	}
	for _, tt := range []struct {
		env    abi.Environment
		random [RandomSize]byte
		want   string
	}{
		{abi.EnvLive, rising, "svc_live_0123456789ABCDEFGHIJKLMNOPQRST3MpION"},
		{abi.EnvTest, rising, "svc_test_0123456789ABCDEFGHIJKLMNOPQRST1jJ4l2"},
		{abi.EnvLive, passing, "svc_live_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz3BPLUD"},
		{abi.EnvLive, none, ""},
	} {
		if got := Mint(tt.env, &tt.random); got != tt.want {
			t.Errorf("Mint(%s, %d…) = %q, want %q", tt.env, tt.random[0], got, tt.want)
		}
	}
}

func TestValidRefuses(t *testing.T) {
	var random [RandomSize]byte
	key := Mint(abi.EnvLive, &random)
	for name, token := range map[string]string{
		"empty":         "",
		"prefix only":   "svc_live_",
		"short":         key[:Length-1],
		"long":          key + "0",
		"other prefix":  "svc_prod_" + key[9:],
		"upper prefix":  "SVC_LIVE_" + key[9:],
		"other env":     "svc_test_" + key[9:],
		"swapped":       key[:9] + "1" + key[10:],
		"bad checksum":  key[:Length-1] + "!",
		"not base 62":   key[:20] + "-" + key[21:],
		"NUL":           key[:20] + "\x00" + key[21:],
		"not ASCII":     key[:20] + "é" + key[22:],
		"spaces within": key[:20] + " " + key[21:],
	} {
		if Valid(token) {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var random [RandomSize]byte
		copy(random[:], rapid.SliceOfN(rapid.Byte(), RandomSize, RandomSize).Draw(t, "random"))
		env := rapid.SampledFrom([]abi.Environment{abi.EnvLive, abi.EnvTest}).Draw(t, "env")
		key := Mint(env, &random)
		if key == "" {
			t.Skip("too few bytes below 248")
		}
		if !Valid(key) || !strings.HasPrefix(key, "svc_"+string(env)+"_") {
			t.Fatalf("%q is no key of %s", key, env)
		}
		// A CRC detects every error within 32 consecutive bits, so any one changed
		// character.
		i := rapid.IntRange(0, Length-1).Draw(t, "at")
		c := rapid.Byte().Draw(t, "byte")
		if wrong := key[:i] + string([]byte{c}) + key[i+1:]; wrong != key {
			if Valid(wrong) {
				t.Fatalf("%q with byte %d changed to %d is accepted", wrong, i, c)
			}
		}
	})
}

func TestCharactersAreEquallyLikely(t *testing.T) {
	seen := map[byte]int{}
	for r := range 256 {
		var random [RandomSize]byte
		random[0] = byte(r)
		if r < 248 {
			seen[Mint(abi.EnvLive, &random)[len(live)]]++
		}
	}
	for i := range len(alphabet) {
		if seen[alphabet[i]] != 4 {
			t.Errorf("%c comes from %d bytes, want 4", alphabet[i], seen[alphabet[i]])
		}
	}
}

func FuzzValid(f *testing.F) {
	var random [RandomSize]byte
	f.Add(Mint(abi.EnvLive, &random))
	f.Add(Mint(abi.EnvTest, &random))
	f.Add("")
	f.Add("svc_live_")
	f.Add(strings.Repeat("x", Length))
	f.Add("svc_live_" + strings.Repeat("\xff", 36))
	f.Fuzz(func(t *testing.T, token string) {
		if got, want := crc32of(token), crc32.ChecksumIEEE([]byte(token)); got != want {
			t.Fatalf("checksum of %q = %x, want %x", token, got, want)
		}
		if Valid(token) && !strings.HasPrefix(token, "svc_live_") && !strings.HasPrefix(token, "svc_test_") {
			t.Fatalf("%q is accepted", token)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	var random [RandomSize]byte
	key := Mint(abi.EnvLive, &random)
	for b.Loop() {
		if !Valid(key) {
			b.Fatal("refused")
		}
	}
}

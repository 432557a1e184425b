package signature_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"partneredge/edge/webhook/signature"
)

const (
	secret = "3f1c0c6a5e0b4d2f9a7b8c6d5e4f30213f1c0c6a5e0b4d2f9a7b8c6d5e4f3021"
	other  = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

var (
	body = []byte(`{"id":"evt_1","type":"goal.pace_changed","data":{"pace":"ahead"}}`)
	at   = time.Unix(1_700_000_000, 0)
)

func TestVerify(t *testing.T) {
	good := signature.Sign(at, body, secret)
	v1 := strings.TrimPrefix(good, "t=1700000000,")
	tests := []struct {
		name    string
		header  string
		body    []byte
		now     time.Time
		secrets []string
		want    error
	}{
		{"as signed", good, body, at, []string{secret}, nil},
		{"at the edge of the tolerance", good, body, at.Add(300 * time.Second), []string{secret}, nil},
		{"past it", good, body, at.Add(301 * time.Second), []string{secret}, signature.ErrTooOld},
		{"from the future, at the edge", good, body, at.Add(-300 * time.Second), []string{secret}, nil},
		{"from the future, past it", good, body, at.Add(-301 * time.Second), []string{secret}, signature.ErrTooOld},
		{"other body", good, append([]byte(" "), body...), at, []string{secret}, signature.ErrMismatch},
		{"other secret", good, body, at, []string{other}, signature.ErrMismatch},
		{"no secret", good, body, at, nil, signature.ErrMismatch},
		{"receiver holds both", good, body, at, []string{other, secret}, nil},
		{"sender signs with both", signature.Sign(at, body, other, secret), body, at, []string{secret}, nil},
		{"time moved", "t=1700000001," + v1, body, at, []string{secret}, signature.ErrMismatch},
		{"upper-case digits", "t=1700000000,v1=" + strings.ToUpper(v1[3:]), body, at, []string{secret}, nil},
		{"spaces between", "t=1700000000, " + v1, body, at, []string{secret}, nil},
		{"unknown fields", "v0=abc," + good + ",v2=00", body, at, []string{secret}, nil},
		{"v1 first", v1 + ",t=1700000000", body, at, []string{secret}, nil},
		{"junk v1 beside a good one", good + ",v1=zz", body, at, []string{secret}, nil},
		{"empty", "", body, at, []string{secret}, signature.ErrMalformed},
		{"no t", v1, body, at, []string{secret}, signature.ErrMalformed},
		{"no v1", "t=1700000000", body, at, []string{secret}, signature.ErrMalformed},
		{"two t", "t=1700000000," + good, body, at, []string{secret}, signature.ErrMalformed},
		{"t not a number", "t=now," + v1, body, at, []string{secret}, signature.ErrMalformed},
		{"t negative", "t=-1," + v1, body, at, []string{secret}, signature.ErrMalformed},
		{"t beyond int64", "t=99999999999999999999," + v1, body, at, []string{secret}, signature.ErrMalformed},
		{"t the largest", "t=9223372036854775807," + v1, body, at, []string{secret}, signature.ErrTooOld},
		{"v1 too short", good[:len(good)-2], body, at, []string{secret}, signature.ErrMismatch},
		{"v1 empty", "t=1700000000,v1=", body, at, []string{secret}, signature.ErrMismatch},
		{"too many v1", "t=1700000000" + strings.Repeat(","+v1, 17), body, at, []string{secret}, signature.ErrMalformed},
		{"too long", good + strings.Repeat(" ", 4096), body, at, []string{secret}, signature.ErrMalformed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := signature.Verify(test.header, test.body, signature.DefaultTolerance, test.now, test.secrets...)
			if !errors.Is(err, test.want) {
				t.Errorf("Verify: %v, want %v", err, test.want)
			}
		})
	}
}

// The signature is what another implementation of HMAC-SHA256 makes of the
// same text, keyed with the secret's characters and not the bytes they spell.
func TestSignAgreesWithOpenSSL(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil && os.Getenv("EDGE_REQUIRE_VERIFIERS") != "" {
		t.Fatalf("this test needs openssl: %v", err)
	}
	if err != nil {
		t.Skipf("NOT TESTED: signatures beside OpenSSL's: %v", err)
	}
	for _, body := range [][]byte{body, {}, []byte("é\n\x00\xff"), bytes.Repeat([]byte("a"), 70_000)} {
		cmd := exec.Command(openssl, "dgst", "-sha256", "-hmac", secret, "-r")
		cmd.Stdin = bytes.NewReader(append(fmt.Appendf(nil, "%d.", at.Unix()), body...))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("openssl: %v", err)
		}
		sum, _, _ := strings.Cut(string(out), " ")
		if want, got := "t=1700000000,v1="+sum, signature.Sign(at, body, secret); got != want {
			t.Errorf("body of %d bytes: %s, want %s", len(body), got, want)
		}
	}
}

func FuzzVerify(f *testing.F) {
	good := signature.Sign(at, body, secret)
	for _, header := range []string{
		good, "", "t=,v1=", "t=1,v1=00", "v1=,t", ",,,", "t==1,v1==2", good + "," + good,
		signature.Sign(at, body, secret, other), strings.ToUpper(good), "t=+1700000000" + good[12:],
	} {
		f.Add(header, body)
	}
	f.Fuzz(func(t *testing.T, header string, sent []byte) {
		err := signature.Verify(header, sent, signature.DefaultTolerance, at, secret)
		if err == nil && !strings.Contains(strings.ToLower(header), strings.TrimPrefix(signature.Sign(at, sent, secret), "t=1700000000,v1=")) {
			// t may stand anywhere in the tolerance: sign again with the header's own.
			_, rest, _ := strings.Cut(header, "t=")
			var unix int64
			fmt.Sscanf(rest, "%d", &unix)
			want := signature.Sign(time.Unix(unix, 0), sent, secret)
			if _, sum, _ := strings.Cut(want, "v1="); !strings.Contains(strings.ToLower(header), sum) {
				t.Fatalf("accepted %q", header)
			}
		}
		if signature.Verify(signature.Sign(at, sent, secret), sent, 0, at, secret) != nil {
			t.Fatal("own signature not accepted")
		}
	})
}

package prepare

import (
	"os"
	"testing"
)

// BenchmarkRewrite rewrites the module that every request passes first.
func BenchmarkRewrite(b *testing.B) {
	wasm, err := os.ReadFile("../../build/modules/gate.wasm")
	if err != nil {
		b.Skip("NOT MEASURED: no module, make modules builds it")
	}
	b.SetBytes(int64(len(wasm)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Rewrite(wasm, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

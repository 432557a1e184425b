package valid_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"partneredge/store"
	"partneredge/store/valid"
	"partneredge/wasm/abi"
)

func TestScopes(t *testing.T) {
	var most []string
	for i := range abi.MaxOwnScopes {
		most = append(most, fmt.Sprintf("x:own-%d", i))
	}
	for _, tt := range []struct {
		names, want []string // want nil: refused
	}{
		{nil, []string{}},
		{[]string{"read:agent", "x:quotes", "read:agent", "x:quotes"}, []string{"read:agent", "x:quotes"}},
		{most, most},
		{append(slices.Clone(most), "x:more"), nil},
		{append(slices.Clone(most), most[0]), most},
		{[]string{"read:all"}, nil},
		{[]string{"x:"}, nil},
		{[]string{"x:Quotes"}, nil},
		{[]string{"x:a b"}, nil},
		{[]string{""}, nil},
	} {
		got, err := valid.Scopes(tt.names)
		if tt.want == nil != errors.Is(err, store.ErrInvalid) || !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q and %v, want %q", tt.names, got, err, tt.want)
		}
	}
}

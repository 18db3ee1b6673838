package tikvtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The setting came with 8.1, and 1024 is its default since 8.2 (tikv/tikv#16626, #16717).
func TestEarlyApply_Setting_FollowsVersionAndFile(t *testing.T) {
	t.Parallel()
	ten := uint64(10)
	for name, c := range map[string]struct {
		version string
		options Options
		limit   uint64
		known   bool
	}{
		"7.5":                {version: "7.5.3"},
		"8.1":                {version: "v8.1.2", known: true},
		"8.2":                {version: "8.2.0", known: true, limit: 1024},
		"8.5, the default":   {known: true, limit: 1024},
		"set in the file":    {version: "8.1.0", options: Options{EarlyApply: &ten}, known: true, limit: 10},
		"without the key":    {options: Options{NoEarlyApply: true}},
		"9.0, which is more": {version: "9.0.0", known: true, limit: 1024},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Store{cfg: Config{Version: c.version}, opts: c.options}
			s.configureEarlyApply()
			limit, known := s.EarlyApplyLimit()
			require.Equal(t, c.known, known)
			require.Equal(t, c.limit, limit)
		})
	}
}

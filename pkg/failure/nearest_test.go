package failure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestNearest_Typos_AreFound(t *testing.T) {
	t.Parallel()
	names := []string{"first", "prod-20261120", "prod-20261121", "max-hold", "max-lag", "io2"}
	for typed, want := range map[string][]string{
		"frist":        {"first"},
		"firs":         {"first"},
		"fiirst":       {"first"},
		"max-hodl":     {"max-hold"},
		"max-la":       {"max-lag"},
		"prod":         {"prod-20261120", "prod-20261121"},
		"prod20261121": {"prod-20261121", "prod-20261120"},
		"io3":          {"io2"},
		"xyzzy":        nil,
		"":             nil,
		"fi":           nil,
	} {
		require.Equal(t, want, failure.Nearest(typed, names, 3), typed)
	}
	require.Equal(t, []string{"prod-20261120"}, failure.Nearest("prod", names, 1), "no more than asked for")
}

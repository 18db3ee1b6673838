package ebs

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumber_NeverWrapsAround(t *testing.T) {
	t.Parallel()
	require.Nil(t, number(0))
	for n, want := range map[int64]int32{1: 1, -1: -1, math.MaxInt32: math.MaxInt32, math.MaxInt32 + 1: math.MaxInt32, math.MinInt64: math.MinInt32} {
		require.Equal(t, want, *number(n))
	}
}

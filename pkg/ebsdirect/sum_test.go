package ebsdirect_test

import (
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebsdirect"
)

func TestLinear_SumsOfBlocksInOrder_AreHashed(t *testing.T) {
	t.Parallel()
	var l ebsdirect.Linear
	require.Equal(t, ebsdirect.SumOf(nil), l.Sum())
	a, b := ebsdirect.SumOf([]byte("a")), ebsdirect.SumOf([]byte("b"))
	require.NoError(t, l.Add(0, a))
	require.NoError(t, l.Add(7, b))
	require.Error(t, l.Add(7, b))
	require.Error(t, l.Add(3, b))
	require.Equal(t, ebsdirect.Sum(sha256.Sum256(append(a[:], b[:]...))), l.Sum())
	require.EqualValues(t, 2, l.Blocks())
}

func TestToken_SameRunAndVolume_IsTheSame(t *testing.T) {
	t.Parallel()
	require.Equal(t, ebsdirect.Token("run", "vol"), ebsdirect.Token("run", "vol"))
	require.NotEqual(t, ebsdirect.Token("run", "vol"), ebsdirect.Token("run v", "ol"))
	require.Len(t, ebsdirect.Token("run", "vol"), 64)
}

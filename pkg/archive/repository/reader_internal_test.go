package repository

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The memory of a restore does not depend on how well the blocks compress.
func TestReader_ShortRange_HasRoomForAny(t *testing.T) {
	t.Parallel()
	var r Repository
	for _, size := range []int{1, 1 << 20, MaxRange} {
		reader, err := r.reader(size)
		require.NoError(t, err)
		require.Len(t, reader.sealed, size)
		require.Equal(t, MaxRange, cap(reader.sealed))
	}
}

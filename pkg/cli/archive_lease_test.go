package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/failure"
)

// A command that reads has a lease while it does, and fails if that was broken meanwhile.
func TestArchiveReading_LeaseIsBroken_FailsClosed(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	r := l.open(t)
	a := &app{}
	for _, broken := range []bool{false, true} {
		_, done, err := a.reading(t.Context(), r, "verify")
		require.NoError(t, err)
		all, err := lease.All(t.Context(), r.Objects())
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, "verify", all[0].Owner)
		if broken {
			require.NoError(t, all[0].Break(t.Context(), r.Objects(), nil))
		}
		require.Equal(t, broken, failure.Is(done(nil), failure.Conflict))
		left, err := r.Objects().List(t.Context(), format.LeasePrefix)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

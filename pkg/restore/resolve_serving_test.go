package restore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// A cluster that serves cannot be resolved now or later: the error is permanent, and its hint is another command.
func TestResolve_ClusterServes_IsRefusedAndNotToBeTriedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, err := l.restore(within(t), t, nil, nil)
	require.NoError(t, err)
	before := len(l.bed.Kube.MutatingCalls())
	result, err := l.resolve(within(t), t)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "it is not in recovery mode: resolving would undo every write since backup b")
	require.False(t, failure.Transient(err), "to wait does not help")
	require.False(t, result.Restored)
	for _, text := range []string{err.Error(), failure.HintOf(err)} {
		require.NotContains(t, strings.ToLower(text), "try again")
		require.NotContains(t, strings.ToLower(text), "run it again")
		require.NotContains(t, text, "tisnap resolve", "the same command is refused for ever")
	}
	require.Contains(t, failure.HintOf(err), "restore into a new one: tisnap restore b --to CLUSTER")
	require.Len(t, l.bed.Kube.MutatingCalls(), before, "nothing was changed")
}

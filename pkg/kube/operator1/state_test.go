package operator1

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Leaving recovery mode a second time finds which pods ran in it the first time: those alone are restarted.
func TestLeaveRecovery_Again_NamesThePodsOfTheFirstTime(t *testing.T) {
	t.Parallel()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"recoveryMode": true, "pd": map[string]any{"replicas": int64(1)}, "tikv": map[string]any{"replicas": int64(3)}, "tidb": map[string]any{"replicas": int64(2)},
	}}}
	require.Equal(t, []string{"pd"}, StartOrder(o))
	require.Empty(t, MayUse(o))
	require.True(t, StartTiKV(o))
	require.False(t, StartTiKV(o), "it is set already")
	require.Equal(t, []string{"pd", "tikv"}, StartOrder(o))
	require.Contains(t, MayUse(o), "TiKV was allowed to start")
	require.Empty(t, Serves(o))

	pods, cleared := LeaveRecovery(o, []string{"a", "b"})
	require.True(t, cleared)
	require.Equal(t, []string{"a", "b"}, pods)
	require.NotContains(t, o.GetAnnotations(), volumesReadyKey)
	require.Equal(t, []string{"pd", "tikv", "tidb"}, StartOrder(o))
	require.Contains(t, Serves(o), "is not in recovery mode")
	pods, cleared = LeaveRecovery(o, []string{"c"})
	require.False(t, cleared)
	require.Equal(t, []string{"a", "b"}, pods)
}

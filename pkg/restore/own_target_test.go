package restore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// A target of TiDB Operator 2.x is made by the restore that it is for: one in recovery mode is another run's.
func TestCheck_TargetOfAnotherRunOfOperator2_IsRefused(t *testing.T) {
	t.Parallel()
	name := cluster.Name{Namespace: "tidb", Name: "copy"}
	tc := kube.TidbCluster{Name: name, Run: "another", RecoveryMode: true, Own: true, TiKVReplicas: 1}
	deps := Deps{Kube: showing{tc: tc}, Store: objstoretest.NewMemory(nil)}
	r := newRun(deps, Options{Run: "r", Target: name}, byRun)
	m := &manifest.Manifest{}
	m.Source.Stores = []cluster.Store{{ID: 1}}
	err := r.target.check(t.Context(), m)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "run another has made the cluster")
	require.Contains(t, failure.HintOf(err), "tisnap restore abort another")
}

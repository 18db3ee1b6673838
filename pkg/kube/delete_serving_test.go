package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Another process of the run has finished the restore: the undo of this one, which was suspended, finds a cluster that serves.
func TestDeleteCluster_ThatServes_Stays(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lab){
		"it has left recovery mode": func(l *lab) {
			_ = l.server.Put(withField(l.server.Get("tidbclusters", "tidb", "dst"), false, "spec", "recoveryMode"))
		},
		"TiDB runs": func(l *lab) {
			_ = l.server.Put(withField(l.server.Get("tidbclusters", "tidb", "dst"), map[string]any{"dst-tidb-0": map[string]any{"health": true}}, "status", "tidb", "members"))
		},
	} {
		for at, arrange := range map[string]func(*testing.T, *lab){
			"before the undo": func(_ *testing.T, l *lab) { change(l) },
			"between the check and the deletion": func(t *testing.T, l *lab) {
				t.Helper()
				require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.tidbclusters", Position: fault.Slow, Do: func() { change(l) }}))
			},
		} {
			t.Run(name+" "+at, func(t *testing.T) {
				t.Parallel()
				l := newServer(t)
				bound(t, l)
				arrange(t, l)
				err := l.client.DeleteCluster(t.Context(), source("dst"), run, false)
				require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
				require.NotNil(t, l.server.Get("tidbclusters", "tidb", "dst"))
				require.Len(t, l.server.List("persistentvolumeclaims", "tidb"), 3)
				require.Len(t, l.server.List("persistentvolumes", ""), 3)
			})
		}
	}
}

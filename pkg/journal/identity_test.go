package journal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
)

// Names are alike in many Kubernetes clusters: only ids prove whose a run is, and what differs is named.
func TestSameCluster_ByIDsAlone(t *testing.T) {
	t.Parallel()
	prod := cluster.Name{Namespace: "tidb", Name: "prod"}
	is := func(id uint64, uid string) journal.About {
		return journal.About{Cluster: prod, ClusterID: id, KubernetesUID: uid}
	}
	for name, row := range map[string]struct {
		was, now journal.About
		proven   bool
		reasons  []string
	}{
		"the same PD":                {is(7, ""), is(7, ""), true, nil},
		"another PD":                 {is(7, ""), is(8, ""), false, []string{"tidb/prod", "PD's cluster id 7", "PD's cluster id 8"}},
		"the same Kubernetes":        {is(0, "a"), is(0, "a"), true, nil},
		"another Kubernetes":         {is(0, "a"), is(0, "b"), false, []string{"Kubernetes' id a", "Kubernetes' id b"}},
		"an older version":           {is(0, ""), is(7, "a"), false, nil},
		"ids of different kinds":     {is(7, ""), is(0, "a"), false, nil},
		"made again where it was":    {is(7, "a"), is(8, "a"), false, []string{"PD's cluster id 7"}},
		"the same PD, not where":     {is(7, "a"), is(7, ""), true, nil},
		"the same PD, and elsewhere": {is(7, "a"), is(7, "b"), false, []string{"Kubernetes' id b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proven, err := row.was.SameCluster("r1", &row.now)
			require.Equal(t, row.proven, proven)
			if row.reasons == nil {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			for _, text := range row.reasons {
				require.ErrorContains(t, err, text)
			}
			require.Equal(t, failure.Conflict, failure.KindOf(row.was.SameRequest("r1", &row.now)))
		})
	}
}

package backup_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// core is the cluster as one of TiDB Operator 2.x.
type core struct {
	kube.Clusters
	objects []json.RawMessage
}

func (c core) Cluster(ctx context.Context, name cluster.Name) (kube.TidbCluster, error) {
	tc, err := c.Clusters.Cluster(ctx, name)
	tc.Object, tc.Objects = nil, c.objects
	return tc, err
}

func TestRun_ClusterOfOperator2_ManifestHasItsObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	objects := []json.RawMessage{[]byte(`{"kind":"Cluster"}`), []byte(`{"kind":"PDGroup"}`)}
	r.deps.Kube = core{r.deps.Kube, objects}
	o := r.options()
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
	require.Equal(t, objects, result.Manifest.Kubernetes.Objects)
	require.Empty(t, result.Manifest.Kubernetes.TidbCluster)
	require.Equal(t, manifest.Operator2, result.Manifest.Kubernetes.Operator())
}

package leak

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// What is new is found wherever it is: in any namespace, in none, or in EC2.
func TestAwaitNoMore_NamesWhatIsNew(t *testing.T) {
	t.Parallel()
	bed, err := testbed.Start(t.Context(), testbed.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	spec := cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}
	_, err = bed.EC2.CreateVolumeDirect("us-west-2a", spec, ebs.Tags{"of": "before"})
	require.NoError(t, err)
	before := Everything(bed)
	require.NotEmpty(t, before)
	require.NoError(t, AwaitNoMore(t.Context(), bed, before, time.Second))

	id, err := bed.EC2.CreateVolumeDirect("us-west-2a", spec, nil)
	require.NoError(t, err)
	for kind, namespace := range map[string]string{"Pod": "default", "Namespace": "", "Cluster": "other"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
		o.SetNamespace(namespace)
		o.SetName("left")
		require.NoError(t, bed.Objects.Put(o))
	}
	err = AwaitNoMore(t.Context(), bed, before, 10*time.Millisecond)
	for _, want := range []string{"pods default/left", "namespaces /left", "clusters other/left", string(id)} {
		require.ErrorContains(t, err, want)
	}
}

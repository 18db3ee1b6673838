package operator1

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestClaimName_SourceClaim_KeepsTheVolumesName(t *testing.T) {
	t.Parallel()
	target := cluster.Name{Namespace: "x", Name: "dst-2"}
	for name, c := range map[string]struct{ pod, instance, claim, want string }{
		"by the instance":       {"", "src", "tikv-src-tikv-0", "tikv-dst-2-tikv-4"},
		"second volume":         {"", "src", "tikv-raft-log-src-tikv-12", "tikv-raft-log-dst-2-tikv-4"},
		"cluster called tikv":   {"", "tikv", "tikv-tikv-tikv-1", "tikv-dst-2-tikv-4"},
		"cluster like a pod":    {"", "a-tikv-1", "tikv-wal-a-tikv-1-tikv-1", "tikv-wal-dst-2-tikv-4"},
		"instance of Helm":      {"src-tikv-0", "release-1", "tikv-src-tikv-0", "tikv-dst-2-tikv-4"},
		"Helm, second volume":   {"src-tikv-12", "release-1", "tikv-raft-log-src-tikv-12", "tikv-raft-log-dst-2-tikv-4"},
		"neither":               {"", "", "tikv-src-tikv-0", ""},
		"another volume's name": {"", "src", "data-src-tikv-0", ""},
		"another component":     {"", "src", "tikv-src-pd-0", ""},
		"another pod":           {"src-tikv-1", "src", "tikv-src-tikv-0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meta := &metav1.ObjectMeta{Name: c.claim, Labels: map[string]string{InstanceLabel: c.instance}}
			if c.pod != "" {
				meta.Annotations = map[string]string{podNameKey: c.pod}
			}
			name, err := Store{Cluster: target, Ordinal: 4}.Claim(meta)
			assert.Equal(t, c.want, name)
			if c.want == "" {
				assert.Equal(t, failure.Corrupt, failure.KindOf(err))
			}
		})
	}
}

func TestMadeForPod_NamesOfClaims(t *testing.T) {
	t.Parallel()
	for claim, want := range map[string]bool{
		"pd-dst-pd-0": true, "tikv-dst-tikv-12": true, "tikv-raft-log-dst-tikv-0": true,
		"pd-dst-pd": false, "pd-dst2-pd-0": false, "pd-src-pd-0": false, "dst": false, "": false,
	} {
		require.Equal(t, want, MadeForPod("dst").MatchString(claim), claim)
	}
}

// The Operator labels everything of a cluster with the instance that Helm and Argo CD write on it.
func TestInstance_OfHelm_IsItsLabel(t *testing.T) {
	t.Parallel()
	o := &unstructured.Unstructured{}
	o.SetName("prod")
	require.Equal(t, "prod", Instance(o))
	o.SetLabels(map[string]string{InstanceLabel: "release-1"})
	require.Equal(t, "release-1", Instance(o))
}

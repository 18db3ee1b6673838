package kubetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// What the real API server and Operator did, so that the stand-ins do not drift back.

func TestFacts_ClaimMadeRightAfterItsVolume_WaitsForTheBindersSync(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	phase := func(claim string) string {
		text, _, _ := unstructured.NestedString(l.server.Get("persistentvolumeclaims", "tidb", claim).Object, "status", "phase")
		return text
	}
	made := func(suffix, phase string) {
		pv := l.server.List("persistentvolumes", "")[0]
		pv.SetName("pv-" + suffix)
		require.NoError(t, unstructured.SetNestedField(pv.Object, phase, "status", "phase"))
		require.NoError(t, unstructured.SetNestedMap(pv.Object, map[string]any{"namespace": "tidb", "name": "claim-" + suffix}, "spec", "claimRef"))
		claim := l.server.Get("persistentvolumeclaims", "tidb", "tikv-src-tikv-0")
		claim.SetName("claim-" + suffix)
		require.NoError(t, unstructured.SetNestedField(claim.Object, "pv-"+suffix, "spec", "volumeName"))
		require.NoError(t, unstructured.SetNestedField(claim.Object, "Pending", "status", "phase"))
		require.NoError(t, l.server.Put(claim)) // without its volume the binder cannot bind it: as with one that is not Available
		require.NoError(t, l.server.Put(pv))
	}
	made("early", "Pending")
	l.eventually(t, "the volume is seen", func() bool {
		text, _, _ := unstructured.NestedString(l.server.Get("persistentvolumes", "", "pv-early").Object, "status", "phase")
		return text == "Available"
	})
	require.Equal(t, "Pending", phase("claim-early"))
}

func TestFacts_ReclaimPolicy_IsTheSpecsOnEveryBoundVolume(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	for _, policy := range []string{"Delete", "Retain"} {
		tc := l.server.Get("tidbclusters", "tidb", "src")
		require.NoError(t, unstructured.SetNestedField(tc.Object, policy, "spec", "pvReclaimPolicy"))
		require.NoError(t, l.server.Put(tc))
		l.eventually(t, policy, func() bool {
			text, _, _ := unstructured.NestedString(l.server.List("persistentvolumes", "")[0].Object, "spec", "persistentVolumeReclaimPolicy")
			return text == policy
		})
	}
}

func TestFacts_InstanceLabelOfTheTidbCluster_IsOnEverything(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	tc := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: name, TiKV: 1})
	tc.SetLabels(map[string]string{"app.kubernetes.io/instance": "release-1"})
	require.NoError(t, l.server.Put(tc))
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	for _, resource := range []string{"pods", "persistentvolumeclaims", "persistentvolumes", "statefulsets", "services"} {
		list := l.server.List(resource, "")
		require.NotEmpty(t, list, resource)
		for _, o := range list {
			require.Equal(t, "release-1", o.GetLabels()["app.kubernetes.io/instance"], resource)
		}
	}
}

func TestFacts_TiDBStarts_AsSoonAsOneStoreIsUp(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2a")
	l.runtime.SetUnready("tidb", "src-tikv-1", "it does not come up")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 2})
	l.eventually(t, "TiDB runs", func() bool {
		_, _, tidb := l.runtime.Running(name)
		return tidb > 0
	})
}

func TestFacts_TiDBStarts_InRecoveryModeToo(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.runtime.SetUnready("tidb", "src-tikv-0", "it comes up slowly")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "the store starts", func() bool { return len(l.runtime.Starts()) == 1 })
	tc := l.server.Get("tidbclusters", "tidb", "src")
	require.NoError(t, unstructured.SetNestedField(tc.Object, true, "spec", "recoveryMode"))
	require.NoError(t, l.server.Put(tc))
	_, _, tidb := l.runtime.Running(name)
	require.Zero(t, tidb)
	l.runtime.SetUnready("tidb", "src-tikv-0", "")
	l.eventually(t, "TiDB runs", func() bool {
		_, _, tidb := l.runtime.Running(name)
		return tidb > 0
	})
}

func TestFacts_ProcessThatEnds_IsRestartedAndOnlyItsLogGivesTheReason(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.runtime.SetUnready("tidb", "src-tikv-0", kubetest.Crashed+"panic 17")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	var pod *unstructured.Unstructured
	l.eventually(t, "restarted", func() bool {
		pod = l.server.Get("pods", "tidb", "src-tikv-0")
		if pod == nil {
			return false
		}
		list, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
		if len(list) == 0 {
			return false
		}
		count, _, _ := unstructured.NestedInt64(list[0].(map[string]any), "restartCount")
		return count >= 2
	})
	require.Greater(t, len(l.runtime.Starts()), 2)
	text, err := pod.MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(text), "back-off")
	require.NotContains(t, string(text), "panic 17")
}

package kube_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// tried is a dry run of a restore of one volume into tidb/dst.
func (l *lab) tried(t *testing.T, source json.RawMessage) error {
	t.Helper()
	target := toDst()
	return l.client.DryRun(t.Context(), source, target, []kube.RestoredVolume{recordedVolume(t, target.Name)}, false)
}

func toDst() kube.Target { return kube.Target{Name: source("dst"), Run: run} }

func TestDryRun_NothingInTheWay_MakesNothing(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.server.AddStorageClass("ebs-sc"))
	require.NoError(t, l.tried(t, sourceObject(t)))
	require.Empty(t, l.server.MutatingCalls())
	require.Empty(t, l.server.List("persistentvolumes", ""))
	require.NoError(t, l.client.CreateCluster(t.Context(), sourceObject(t), toDst()))
	require.NoError(t, l.client.DryRun(t.Context(), sourceObject(t), toDst(), nil, true), "the cluster exists")
}

func TestDryRun_EveryObject_IsAskedFor(t *testing.T) {
	t.Parallel()
	for _, resource := range []string{"tidbclusters", "persistentvolumes", "persistentvolumeclaims"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			l := newServer(t)
			require.NoError(t, l.server.AddStorageClass("ebs-sc"))
			l.server.Refuse(kubetest.Refusal{Verb: "create", Resource: resource, Status: http.StatusForbidden, Message: "exceeded quota: small"})
			err := l.tried(t, sourceObject(t))
			require.Equal(t, failure.Unready, failure.KindOf(err))
			require.ErrorContains(t, err, "exceeded quota: small")
			require.Empty(t, l.server.MutatingCalls())
		})
	}
}

func TestDryRun_StorageClassMissing_IsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	err := l.tried(t, sourceObject(t))
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "storageClassName names it")
	require.Contains(t, failure.HintOf(err), "ebs-sc")
}

// A StatefulSet goes by the name of a claim: those of PD that an earlier cluster left behind are in the way too,
// whatever their labels.
func TestDryRun_ClaimsLeftBehindByAnyComponent_AreAConflict(t *testing.T) {
	t.Parallel()
	for claim, want := range map[string]failure.Kind{
		"pd-dst-pd-0": failure.Conflict, "data0-dst-tiflash-1": failure.Conflict, "tikv-dst-tikv-0": failure.Conflict,
		"pd-dst-2-pd-0": failure.Unknown, "tikv-raft-dst-tikv-0": failure.Unknown, "notes": failure.Unknown,
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			l := newServer(t)
			require.NoError(t, l.server.AddStorageClass("ebs-sc"))
			require.NoError(t, l.client.BindVolume(t.Context(), recordedVolume(t, source("old"))))
			left := l.server.Get("persistentvolumeclaims", "tidb", "tikv-old-tikv-0")
			left.SetName(claim)
			left.SetLabels(map[string]string{"app.kubernetes.io/instance": "release-1"})
			require.NoError(t, l.server.Put(left))
			err := l.tried(t, sourceObject(t))
			require.Equal(t, want, failure.KindOf(err), "%v", err)
		})
	}
}

func withTLS(t *testing.T) json.RawMessage {
	t.Helper()
	o := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("src"), TiKV: 1})
	require.NoError(t, unstructured.SetNestedField(o.Object, true, "spec", "tlsCluster", "enabled"))
	b, err := o.MarshalJSON()
	require.NoError(t, err)
	return b
}

func secret(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": "tidb"},
	}}
}

func TestTLS_SecretsOfTheTargetMissing_AreNamedInPreflight(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.server.AddStorageClass("ebs-sc"))
	require.NoError(t, l.server.Put(secret("dst-pd-cluster-secret")))
	err := l.tried(t, withTLS(t))
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "do not exist: dst-tikv-cluster-secret, dst-tidb-cluster-secret, dst-cluster-client-secret")
	require.Contains(t, failure.HintOf(err), "docs/tls.md")
	for _, name := range []string{"tikv-cluster", "tidb-cluster", "cluster-client"} {
		require.NoError(t, l.server.Put(secret("dst-"+name+"-secret")))
	}
	require.NoError(t, l.tried(t, withTLS(t)))
}

func TestTLS_SecretsMayNotBeRead_IsNotRefused(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.server.AddStorageClass("ebs-sc"))
	l.server.Deny("get", "secrets")
	require.NoError(t, l.tried(t, withTLS(t)))
}

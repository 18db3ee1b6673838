package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// namespaceUID is the UID of a namespace that exists.
func (l *lab) namespaceUID(t *testing.T, name string) string {
	t.Helper()
	uid, err := kube.NamespaceUID(t.Context(), l.client, name)
	require.NoError(t, err)
	return uid
}

// It is what a cage is for: its cluster serves, and goes all the same, with its pods, claims and persistent volumes.
func TestRemoveCaged_ClusterThatServes_IsDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	target, volumes := l.started(t)
	require.NoError(t, l.client.LeaveRecovery(t.Context(), target))
	require.Equal(t, failure.Conflict, failure.KindOf(l.client.DeleteCluster(t.Context(), target, run, false)))
	uid := l.namespaceUID(t, target.Namespace)
	require.NoError(t, l.client.RemoveCaged(t.Context(), target, run, uid))
	require.Nil(t, l.server.Get("tidbclusters", target.Namespace, target.Name))
	require.Len(t, l.server.List("persistentvolumeclaims", ""), 3, "the source's")
	require.Len(t, l.server.List("persistentvolumes", ""), 3, "the source's")
	for _, v := range volumes {
		require.NotEmpty(t, l.disks.Zone(v.Volume), "the drill deletes it, not Kubernetes")
	}
	require.NoError(t, l.client.RemoveCaged(t.Context(), target, run, uid), "again")
}

func TestRemoveCaged_WhatIsNotTheRuns_Stays(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	bound(t, l)
	target := source("dst")
	uid := l.namespaceUID(t, target.Namespace)
	for name, row := range map[string]struct {
		run       cluster.RunID
		namespace string
		want      failure.Kind
	}{
		"another namespace":     {run, "other", failure.Conflict},
		"another run":           {"other", uid, failure.Conflict},
		"no run":                {"", uid, failure.Usage},
		"no UID of a namespace": {run, "", failure.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := l.client.RemoveCaged(t.Context(), target, row.run, row.namespace)
			require.Equal(t, row.want, failure.KindOf(err), "%v", err)
			require.NotNil(t, l.server.Get("tidbclusters", target.Namespace, target.Name))
			require.Len(t, l.server.List("persistentvolumes", ""), 3)
		})
	}
}

// The smallest cluster is one that a restore makes: its patch is one of those that data allow.
func TestSmallestPatch(t *testing.T) {
	t.Parallel()
	object := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("src"), PD: 3, TiDB: 2, TLS: true})
	source, err := object.MarshalJSON()
	require.NoError(t, err)
	patch, err := kube.SmallestPatch(source)
	require.NoError(t, err)
	to := kube.Target{Name: cluster.Name{Namespace: "cage", Name: "src"}, Run: run}
	to.Changes.Patches = append(to.Changes.Patches, patch)
	text, err := kube.TargetManifest(source, to, nil)
	require.NoError(t, err)
	for _, want := range []string{"tidb_enable_ddl = false", "run-auto-analyze = false", "type: ClusterIP", "pvReclaimPolicy: Delete"} {
		require.Contains(t, string(text), want)
	}
	require.NotContains(t, string(text), "tlsCluster")
	require.NotContains(t, string(text), "replicas: 2")
}

package kube_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
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

// The TiKVs of a half-made cluster of TiDB Operator 2.x outlive the deletion of their namespace: without their Cluster, the Operator
// does not take its finalizer from them.
func TestRemoveCaged_OfOperator2_NamespaceIsBeingDeleted_TiKVsGo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.backUpCore(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.update.clusters", Position: fault.Before, Code: "Invalid"}))
	require.Error(t, r.client.CreateCluster(t.Context(), r.source, r.to, r.volumes...), "it stays paused")
	for _, kind := range []string{"clusters", "tikvgroups", "pdgroups", "tikvs"} {
		for _, o := range l.server.List(kind, "tidb") {
			if strings.HasPrefix(o.GetName(), "dst") {
				require.NoError(t, l.server.Remove(o))
			}
		}
	}
	require.Nil(t, l.server.Get("clusters", "tidb", "dst"))
	require.Len(t, l.server.List("tikvs", "tidb"), 6, "they have a finalizer")
	require.NoError(t, l.client.RemoveCaged(t.Context(), r.to.Name, run, l.namespaceUID(t, "tidb")))
	r.nothing(t)
}

// Of the source the smallest cluster has the stores, one PD and one TiDB at rest, and nothing that leads out of it.
func TestTargetManifest_Smallest(t *testing.T) {
	t.Parallel()
	one, err := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("src"), PD: 3, TiDB: 2, TLS: true}).MarshalJSON()
	require.NoError(t, err)
	two, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "List",
		"items": kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: source("src"), PD: 3, TiDB: 2, TLS: true}),
	})
	require.NoError(t, err)
	for name, row := range map[string]struct {
		source json.RawMessage
		large  string
		want   []string
	}{
		"TiDB Operator 1.x": {one, `tidb-replicas: "2"`, []string{"type: ClusterIP", "pvReclaimPolicy: Delete", "run-auto-analyze = false"}},
		"TiDB Operator 2.x": {two, "replicas: 2", []string{"run-auto-analyze = false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := kube.Target{Name: cluster.Name{Namespace: "cage", Name: "src"}, Run: run}
			text, err := kube.TargetManifest(row.source, to, nil)
			require.NoError(t, err)
			require.Contains(t, string(text), row.large)
			require.Contains(t, string(text), "tlsCluster")
			to.Changes.Smallest = true
			text, err = kube.TargetManifest(row.source, to, nil)
			require.NoError(t, err)
			for _, want := range append(row.want, "tidb_enable_ddl = false") {
				require.Contains(t, string(text), want)
			}
			require.NotContains(t, string(text), "tlsCluster")
			require.NotContains(t, string(text), row.large)
		})
	}
}

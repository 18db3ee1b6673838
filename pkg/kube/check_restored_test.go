package kube

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestCheckRestored_WhatLaterCallsWouldRefuse_IsFoundBeforeThem(t *testing.T) {
	t.Parallel()
	r := readRecorded(t)
	target := cluster.Name{Namespace: "prod", Name: "dst"}
	volume := func(ordinal int, claim, object json.RawMessage) RestoredVolume {
		return RestoredVolume{
			Cluster: target, Run: "r1", Ordinal: ordinal, Role: cluster.RoleData, MountPath: "/var/lib/tikv",
			Zone: "us-west-2a", SizeGiB: 10, Claim: claim, Object: object,
		}
	}
	claim, object := r.Kubernetes.PVCs[0], r.Kubernetes.PVs[0]
	checked, err := CheckRestored(r.Kubernetes.Cluster, Target{Name: target, Run: "r1"}, []RestoredVolume{volume(0, claim, object), volume(1, claim, object)})
	require.NoError(t, err)
	names := checked.Names
	require.Len(t, names, 2)
	require.NotEqual(t, names[0], names[1])
	require.Contains(t, names[1].Claim, "dst-tikv-1")

	joins := json.RawMessage(`{"spec": {"cluster": {"name": "src"}}}`)
	large, err := json.Marshal(map[string]any{"spec": map[string]any{"text": make([]byte, maxObjectBytes)}})
	require.NoError(t, err)
	for name, row := range map[string]struct {
		cluster json.RawMessage
		volumes []RestoredVolume
		kind    failure.Kind
	}{
		"it would join the source":     {joins, nil, failure.Usage},
		"it is too large":              {large, nil, failure.Usage},
		"a claim of another name":      {r.Kubernetes.Cluster, []RestoredVolume{volume(0, json.RawMessage(`{"metadata":{"name":"x"}}`), object)}, failure.Corrupt},
		"a claim that is none":         {r.Kubernetes.Cluster, []RestoredVolume{volume(0, json.RawMessage(`{`), object)}, failure.Corrupt},
		"two volumes of the same name": {r.Kubernetes.Cluster, []RestoredVolume{volume(0, claim, object), volume(0, claim, object)}, failure.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := CheckRestored(row.cluster, Target{Name: target, Run: "r1"}, row.volumes)
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
		})
	}
}

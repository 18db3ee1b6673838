package adopt_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/adopt"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/manifest/manifesttest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when the VolumeBackup began.
func start() time.Time { return time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC) }

// ec2 has these snapshots.
type ec2 map[cluster.SnapshotID]ebs.Snapshot

func (e ec2) DescribeSnapshots(_ context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error) {
	var out []ebs.Snapshot
	for _, id := range ids {
		if s, ok := e[id]; ok {
			out = append(out, s)
		}
	}
	return out, nil
}

// federation is a VolumeBackup of five stores in the parts a, b and c; the TidbClusters of b and c join that of a.
type federation struct {
	ec2    ec2
	stores map[string]*objstoretest.Memory
	whole  *objstoretest.Memory
	faults *fault.Plan // of whole
}

func newFederation(t *testing.T, change func(name string, m *manifest.Manifest)) *federation {
	t.Helper()
	f := &federation{ec2: ec2{}, stores: map[string]*objstoretest.Memory{}, faults: &fault.Plan{}}
	f.whole = objstoretest.NewMemory(f.faults)
	in := map[string][]cluster.StoreID{"a": {1, 4}, "b": {2, 5}, "c": {7}}
	for i, name := range []string{"a", "b", "c"} {
		f.put(t, name, i, in[name], peers(in, name), change)
	}
	return f
}

// peers are status.tikv.peerStores of a part.
func peers(in map[string][]cluster.StoreID, but string) map[string]any {
	out := map[string]any{}
	for name, ids := range in {
		for _, id := range ids {
			if name != but {
				out[id.String()] = map[string]any{}
			}
		}
	}
	return out
}

func (f *federation) put(
	t *testing.T, name string, i int, ids []cluster.StoreID, elsewhere map[string]any, change func(string, *manifest.Manifest),
) {
	t.Helper()
	spec := map[string]any{"acrossK8s": true, "pd": map[string]any{"replicas": 1}, "tikv": map[string]any{"replicas": len(ids)}}
	if name != "a" {
		spec["cluster"] = map[string]any{"name": "prod-a", "namespace": "tidb"}
	}
	object, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": "prod-" + name, "namespace": "tidb"}, "spec": spec,
		"status": map[string]any{"clusterID": "7", "tikv": map[string]any{"peerStores": elsewhere}},
	})
	require.NoError(t, err)
	at := start().Add(time.Duration(3-i) * time.Second) // the last part has the lowest ts
	m := &manifest.Manifest{
		ID: cluster.BackupID("br-" + name), Run: cluster.RunID("run-" + name), Tool: "v1", Region: "us-west-2",
		BackupTS: cluster.MakeTS(at, 0), MaxTS: cluster.MakeTS(at.Add(time.Minute), 0), AllocID: uint64(100 + i), Replicas: 3,
		CreatedAt: at, CutStartedAt: at.Add(time.Second), CutEndedAt: at.Add(2 * time.Second), HeldBy: "holder",
		Source:     cluster.Topology{Cluster: cluster.Name{Namespace: "tidb", Name: "prod-" + name}, ClusterID: 7, Version: "8.5.0", PDReplicas: 1},
		Kubernetes: manifest.Kubernetes{TidbCluster: object, PVCs: []json.RawMessage{[]byte(`{"metadata":{"name":"tikv-` + name + `"}}`)}},
		EarlyApply: &manifest.EarlyApply{State: manifest.EarlyApplyExcluded},
	}
	for _, id := range ids {
		v := cluster.Volume{
			ID: cluster.VolumeID(fmt.Sprintf("vol-%d", id)), Role: cluster.RoleData, PVC: "tikv-" + name, Zone: cluster.Zone("us-west-2" + name),
			VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 100},
		}
		m.Source.Stores = append(m.Source.Stores, cluster.Store{ID: id, Volumes: []cluster.Volume{v}})
		s := manifest.NewSnapshot(cluster.SnapshotID(fmt.Sprintf("snap-%d", id)), id, v, at)
		m.Snapshots = append(m.Snapshots, s)
		f.ec2[s.ID] = ebs.Snapshot{ID: s.ID, Volume: v.ID, State: ebs.SnapshotCompleted, FullBytes: int64(id) << 30}
	}
	if change != nil {
		change(name, m)
	}
	f.stores[name] = objstoretest.NewMemory(nil)
	c := catalog.Catalog{Store: f.stores[name]}
	claim := catalog.Claim{ID: m.ID, Run: m.Run, Cluster: m.Source.Cluster, ClaimedAt: start()}
	require.NoError(t, c.ClaimForBR(t.Context(), claim))
	require.NoError(t, c.LockForBR(t.Context(), claim))
	if m.Kubernetes.PVs == nil { // br's document has a size for each volume
		for _, s := range m.Source.Stores {
			m.Kubernetes.PVs = append(m.Kubernetes.PVs, []byte(fmt.Sprintf(
				`{"metadata":{"name":"pv-%d"},"spec":{"capacity":{"storage":"100Gi"},"csi":{"volumeHandle":%q}}}`, s.ID, s.Volumes[0].ID)))
		}
	}
	require.NoError(t, c.PutManifest(t.Context(), m))
	require.NoError(t, c.PutForBR(t.Context(), m))
	require.NoError(t, c.Seal(t.Context(), m.ID, at.Add(time.Hour), 0))
}

func (f *federation) options(names ...string) adopt.Options {
	o := adopt.Options{
		Backup: "whole", Tool: "v2",
		OpenEC2: func(context.Context, string) (adopt.EC2, error) { return f.ec2, nil },
	}
	for _, name := range names {
		var store objstore.Store = f.stores[name]
		o.Parts = append(o.Parts, adopt.Source{Name: name, Store: store})
	}
	return o
}

func (f *federation) pinned(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, name := range []string{"a", "b", "c"} {
		pin, err := catalog.Catalog{Store: f.stores[name]}.PinOf(t.Context(), cluster.BackupID("br-"+name), cluster.RunID("run-"+name))
		require.NoError(t, err)
		if pin != nil {
			out = append(out, name)
		}
	}
	return out
}

func TestAdopt_AllParts_AreOneBackup(t *testing.T) {
	t.Parallel()
	f := newFederation(t, nil)
	dry := f.options("c", "a", "b")
	dry.DryRun = true
	would, err := adopt.Adopt(t.Context(), f.whole, dry)
	require.NoError(t, err)
	require.Empty(t, f.whole.MutatingCalls())
	require.Empty(t, f.pinned(t))

	made, err := adopt.Adopt(t.Context(), f.whole, f.options("c", "a", "b"))
	require.NoError(t, err)
	require.Equal(t, would, made)
	require.Equal(t, []string{"a", "b", "c"}, f.pinned(t))
	require.EqualValues(t, 19<<30, made.DataBytes)
	require.EqualValues(t, 7<<30, made.LargestBytes)

	m, err := catalog.Catalog{Store: f.whole}.Load(t.Context(), "whole")
	require.NoError(t, err)
	require.True(t, m.Adopted())
	require.Len(t, m.Snapshots, 5)
	require.Equal(t, "prod-a", m.Source.Cluster.Name, "the others join it")
	require.Equal(t, cluster.MakeTS(start().Add(time.Second), 0), m.BackupTS, "the lowest")
	require.Equal(t, cluster.MakeTS(start().Add(3*time.Second+time.Minute), 0), m.MaxTS, "the highest")
	require.EqualValues(t, 102, m.AllocID)
	require.True(t, m.CutStartedAt.Equal(start().Add(2*time.Second)))
	require.True(t, m.CutEndedAt.Equal(start().Add(5*time.Second)))
	require.Equal(t, 3, m.Source.PDReplicas)
	require.Equal(t, manifest.EarlyApplyExcluded, m.EarlyApply.State)
	elsewhere, err := m.Elsewhere()
	require.NoError(t, err)
	require.Empty(t, elsewhere)
	require.Equal(t, "b", m.PartOf(5).Name)
	require.EqualValues(t, "br-c", m.TaggedAs(7))
	require.JSONEq(t, `{"metadata":{"name":"tikv-b"}}`, string(m.KubernetesOf(2).PVCs[0]))

	calls := f.whole.MutatingCalls()
	later := f.options("b", "c", "a")
	later.Tool = "v3"
	again, err := adopt.Adopt(t.Context(), f.whole, later)
	require.NoError(t, err, "the same parts in another order, by another version")
	require.Equal(t, "v2", again.Manifest.Tool)
	require.Equal(t, calls, f.whole.MutatingCalls())
}

// A signature that is asked for is made, or missed.
func TestAdopt_WithASigningKey_IsSignedOrRefused(t *testing.T) {
	t.Parallel()
	f := newFederation(t, nil)
	o := f.options("a", "b", "c")
	o.SignKey = manifesttest.SigningKey(t)
	_, err := adopt.Adopt(t.Context(), f.whole, o)
	require.NoError(t, err)
	_, err = catalog.Catalog{Store: f.whole, VerifyKey: o.SignKey.VerifyKey()}.Load(t.Context(), "whole")
	require.NoError(t, err)
	_, err = adopt.Adopt(t.Context(), f.whole, o)
	require.NoError(t, err, "again")

	o.Backup, o.SignKey = "unsigned", nil
	_, err = adopt.Adopt(t.Context(), f.whole, o)
	require.NoError(t, err)
	o.SignKey = manifesttest.SigningKey(t)
	_, err = adopt.Adopt(t.Context(), f.whole, o)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "it is sealed without: %v", err)
}

func TestAdopt_FailedAnywhere_FinishedByTheSameCall(t *testing.T) {
	t.Parallel()
	whole := newFederation(t, nil)
	_, err := adopt.Adopt(t.Context(), whole.whole, whole.options("a", "b", "c"))
	require.NoError(t, err)
	writes := len(whole.whole.MutatingCalls())
	require.Equal(t, 4, writes, "claim, manifest, backupmeta, seal")
	for n := range writes {
		for _, position := range []fault.Position{fault.Before, fault.After} {
			t.Run(fmt.Sprintf("%s write %d", position, n+1), func(t *testing.T) {
				t.Parallel()
				f := newFederation(t, nil)
				require.NoError(t, f.faults.Add(fault.Rule{Point: "s3.PutObject", Position: position, Nth: n + 1, Times: 1}))
				_, err := adopt.Adopt(t.Context(), f.whole, f.options("a", "b", "c"))
				if position == fault.Before {
					require.Error(t, err)
					_, err = catalog.Catalog{Store: f.whole}.Load(t.Context(), "whole")
					require.Error(t, err, "nothing is sealed")
				}
				later := f.options("a", "b", "c")
				later.Tool = "v3"
				_, err = adopt.Adopt(t.Context(), f.whole, later)
				require.NoError(t, err)
				_, err = catalog.Catalog{Store: f.whole}.Load(t.Context(), "whole")
				require.NoError(t, err)
			})
		}
	}
}

func TestAdopt_WhatItRefuses_BeforeTheFirstChange(t *testing.T) {
	t.Parallel()
	of := func(part string, change func(*manifest.Manifest)) func(string, *manifest.Manifest) {
		return func(name string, m *manifest.Manifest) {
			if name == part {
				change(m)
			}
		}
	}
	all := []string{"a", "b", "c"}
	for name, row := range map[string]struct {
		change func(string, *manifest.Manifest)
		after  func(*testing.T, *federation)
		parts  []string
		kind   failure.Kind
		text   string
	}{
		"one part":     {nil, nil, []string{"a"}, failure.Usage, "a backup by itself"},
		"a part lacks": {nil, nil, []string{"a", "b"}, failure.Unready, "stores that are in no part: 7"},
		"a part twice": {nil, nil, []string{"a", "b", "c", "b"}, failure.Conflict, "store 2 is also in part b"},
		"another hold": {of("b", func(m *manifest.Manifest) { m.HeldBy = "other" }), nil, all, failure.Conflict, "under the hold of run other"},
		"its own hold": {of("a", func(m *manifest.Manifest) { m.HeldBy = "" }), nil, all, failure.Unready, "no record of another process's hold"},
		"a cluster":    {of("c", func(m *manifest.Manifest) { m.Source.ClusterID = 8 }), nil, all, failure.Conflict, "it is of cluster 8"},
		"a region":     {of("c", func(m *manifest.Manifest) { m.Region = "eu-west-1" }), nil, all, failure.Conflict, "in eu-west-1"},
		"a version":    {of("b", func(m *manifest.Manifest) { m.Source.Version = "8.5.1" }), nil, all, failure.Conflict, "it is of TiKV 8.5.1"},
		"a whole":      {of("b", func(m *manifest.Manifest) { m.CopyOf = &manifest.CopyOf{} }), nil, all, failure.Usage, "not a part"},
		"store unknown": {of("c", func(m *manifest.Manifest) {
			m.Kubernetes.TidbCluster = []byte(`{"metadata":{"name":"c","namespace":"t"},"spec":{"tikv":{}},"status":{"clusterID":"7","tikv":{"peerStores":{"1":{},"2":{},"4":{}}}}}`)
		}), nil, all, failure.Conflict, "it does not know these stores: 5 of part b"},
		"no snapshot": {nil, func(_ *testing.T, f *federation) { delete(f.ec2, "snap-5") }, all, failure.Unready, "1 of 5 snapshots cannot be restored: snap-5 does not exist"},
		"another's": {nil, func(_ *testing.T, f *federation) {
			f.ec2["snap-5"] = ebs.Snapshot{ID: "snap-5", Volume: "vol-9", State: ebs.SnapshotCompleted}
		}, all, failure.Unready, "snap-5 is of volume vol-9"},
		"unsealed": {nil, func(t *testing.T, f *federation) {
			t.Helper()
			require.NoError(t, f.stores["b"].Delete(t.Context(), manifest.SealKey("br-b")))
		}, all, failure.Unready, ""},
		"the name": {nil, func(t *testing.T, f *federation) {
			t.Helper()
			require.NoError(t, catalog.Catalog{Store: f.whole}.Claim(t.Context(), catalog.Claim{ID: "whole", Run: "r", ClaimedAt: start()}))
		}, all, failure.Conflict, "a backup of this name exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFederation(t, row.change)
			if row.after != nil {
				row.after(t, f)
			}
			before := slices.Clone(f.whole.MutatingCalls())
			_, err := adopt.Adopt(t.Context(), f.whole, f.options(row.parts...))
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.text)
			require.Equal(t, before, f.whole.MutatingCalls())
			require.Empty(t, f.pinned(t))
		})
	}
}

// Early apply is ruled out by all parts or not at all, and where it may have happened is known from all or from none.
func TestAdopt_EarlyApply_IsTheWorstOfTheParts(t *testing.T) {
	t.Parallel()
	at := func(stores ...cluster.StoreID) *manifest.EarlyApply {
		return &manifest.EarlyApply{State: manifest.EarlyApplyUnproven, Stores: stores}
	}
	for name, row := range map[string]struct{ a, b, want *manifest.EarlyApply }{
		"unknown":   {at(1), nil, at()},
		"somewhere": {at(1), at(), at()},
		"there":     {at(1), at(5), at(1, 5)},
		"one":       {at(1), &manifest.EarlyApply{State: manifest.EarlyApplyNotApplicable}, at(1)},
		"both": {
			&manifest.EarlyApply{State: manifest.EarlyApplyNotApplicable}, &manifest.EarlyApply{State: manifest.EarlyApplyNotApplicable},
			&manifest.EarlyApply{State: manifest.EarlyApplyExcluded},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFederation(t, func(name string, m *manifest.Manifest) {
				switch name {
				case "a":
					m.EarlyApply = row.a
				case "b":
					m.EarlyApply = row.b
				}
			})
			made, err := adopt.Adopt(t.Context(), f.whole, f.options("a", "b", "c"))
			require.NoError(t, err)
			require.Equal(t, row.want, made.Manifest.EarlyApply)
		})
	}
}

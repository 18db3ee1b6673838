package restore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// handedOver is a restore that has no Kubernetes: the test binds what it makes.
type handedOver struct {
	*lab
	pd      *testbed.Cluster
	volumes []restore.Volume
	refuse  error // of the hand-over
	before  bool  // PD is first asked before its stores are up
}

// newHandedOver makes the target as TiDB Operator's user does: in recovery mode, PD alone runs.
func newHandedOver(t *testing.T) *handedOver {
	t.Helper()
	h := &handedOver{lab: newLab(t)}
	require.NoError(t, h.bed.Kube.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{
		Name: target(), PD: 1, TiKV: 3, TiDB: 1, Version: "v8.5.0", SizeGiB: 100, RaftLogVolume: true, RecoveryMode: true,
	})))
	require.Eventually(t, func() bool {
		h.pd = h.bed.Nodes.Cluster(target())
		return h.pd != nil
	}, patience, 5*time.Millisecond)
	return h
}

func (h *handedOver) deps(t *testing.T) (restore.Deps, restore.Options) {
	t.Helper()
	deps, opts := h.next(t, nil)
	deps.Kube = nil
	deps.HandOver = func(_ context.Context, volumes []restore.Volume) error {
		h.volumes = volumes
		return h.refuse
	}
	deps.OpenPD = func(ctx context.Context, _ []string) (restore.PD, error) {
		p, err := pd.Open(ctx, pd.Config{Addresses: h.pd.PD.URLs()})
		if err != nil {
			return nil, err
		}
		t.Cleanup(p.Close)
		if h.before {
			return &emptyBefore{PD: p}, nil
		}
		return p, nil
	}
	return deps, opts
}

func (h *handedOver) prepare(t *testing.T, change func(*restore.Options)) (*restore.Result, error) {
	t.Helper()
	deps, opts := h.deps(t)
	if change != nil {
		change(&opts)
	}
	return restore.Prepare(within(t), deps, opts)
}

func (h *handedOver) resolveData(t *testing.T) (*restore.Result, error) {
	t.Helper()
	deps, opts := h.deps(t)
	return restore.ResolveData(within(t), deps, opts)
}

// bind makes PVs and PVCs of the volumes and lets TiKV start, as the Operator does between the two halves.
func (h *handedOver) bind(t *testing.T, result *restore.Result) {
	t.Helper()
	claims, objects := result.Manifest.Kubernetes.PVCs, result.Manifest.Kubernetes.PVs
	for i, v := range h.volumes {
		require.NoError(t, h.kube.BindVolume(within(t), kube.RestoredVolume{
			Cluster: target(), Run: "operator", Ordinal: v.Ordinal, Role: v.Role, MountPath: v.Mount, Volume: v.ID, Zone: v.Zone,
			SizeGiB: v.Spec.SizeGiB, Claim: claims[i], Object: objects[i],
		}))
	}
	require.NoError(t, h.kube.StartTiKV(within(t), target()))
}

func TestPrepare_ThenResolveData_ClusterServesAfterTheRestart(t *testing.T) {
	t.Parallel()
	h := newHandedOver(t)
	_, err := h.resolveData(t)
	require.Equal(t, failure.Unready, failure.KindOf(err), "PD is not marked yet: %v", err)

	result, err := h.prepare(t, nil)
	require.NoError(t, err)
	require.Len(t, h.volumes, 6)
	require.True(t, h.pd.PD.Recovering())
	for _, v := range h.volumes {
		made, ok := h.bed.EC2.Volume(v.ID)
		require.True(t, ok)
		require.Equal(t, ebs.VolumeAvailable, made.State)
		require.Subset(t, made.Tags, ebs.Tags{
			"TiDBCluster-BR": "new", "ebs.csi.aws.com/cluster": "true", "snapshot/createdFromSnapshotId": string(v.Snapshot),
			"snapshot/" + ebs.TagRun: "backup", "snapshot/" + ebs.TagBackup: "b", ebs.TagRun: "restore-2", ebs.TagCluster: "tidb/copy",
		})
		require.NotContains(t, made.Tags, "CSIVolumeName", "the Operator sets it")
	}
	first, err := journal.NewStoreJournal(h.store, manifest.JournalPrefix("restore-2")).First(t.Context())
	require.NoError(t, err)
	about, err := journal.ReadAbout("restore-2", *first)
	require.NoError(t, err)
	require.Equal(t, testbed.Region, about.Region, "gc looks there for what the run left")

	h.bind(t, result)
	result, err = h.resolveData(t)
	require.NoError(t, err)
	require.False(t, h.pd.PD.Recovering())
	require.Empty(t, h.pd.PD.TTLConfigs(), "PD schedules again")
	require.Positive(t, result.Resolve.Regions)

	require.NoError(t, h.kube.LeaveRecovery(within(t), target()))
	_, err = h.bed.AwaitCluster(within(t), target())
	require.NoError(t, err)
	_, err = h.prepare(t, nil)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "a cluster that serves is not marked: %v", err)
	require.False(t, h.pd.PD.Recovering())
	h.before = true
	_, err = h.prepare(t, nil)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "nor one whose stores came up after the first check: %v", err)
	require.False(t, h.pd.PD.Recovering())
	h.before = false
	_, err = h.resolveData(t)
	require.Equal(t, failure.Unready, failure.KindOf(err), "a cluster that serves is not flashed back: %v", err)
}

// A run that ends between the removal of the resolver's progress and its own end leaves a PD without the mark: the next one,
// which is another run, finishes it. A cluster of which the storage has no such run is refused.
func TestResolveData_EndedAfterTheMarkWasGone_NextRunFinishes(t *testing.T) {
	t.Parallel()
	h := newHandedOver(t)
	result, err := h.prepare(t, nil)
	require.NoError(t, err)
	h.bind(t, result)
	deps, opts := h.deps(t)
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	deps.Sink = stopAt{"check-pd-state", stop}
	_, err = restore.ResolveData(ctx, deps, opts)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, h.pd.PD.Recovering())
	_, err = h.resolveData(t)
	require.NoError(t, err)
	require.NoError(t, h.kube.LeaveRecovery(within(t), target()))
	_, err = h.bed.AwaitCluster(within(t), target())
	require.NoError(t, err)
	_, err = h.resolveData(t)
	require.Equal(t, failure.Unready, failure.KindOf(err), "that one had ended well: %v", err)
}

// stopAt ends a run when it begins a step.
type stopAt struct {
	step string
	stop func()
}

// Emit implements phase.Sink.
func (s stopAt) Emit(e phase.Event) {
	if e.Type == phase.StepStarted && e.Step == s.step {
		s.stop()
	}
}

// emptyBefore is a PD that knew no store when it was asked first.
type emptyBefore struct {
	restore.PD

	asked bool
}

func (p *emptyBefore) Stores(ctx context.Context) ([]pd.Store, error) {
	if !p.asked {
		p.asked = true
		return nil, nil
	}
	return p.PD.Stores(ctx)
}

func TestPrepare_Fails_DeletesItsVolumes(t *testing.T) {
	t.Parallel()
	h := newHandedOver(t)
	h.refuse = errors.New("the disk is full")
	_, err := h.prepare(t, nil)
	require.ErrorContains(t, err, "the disk is full")
	require.Empty(t, h.lab.volumes())

	h.refuse = nil
	require.NoError(t, h.faults.Add(fault.Rule{Point: "ec2.CreateVolume", Position: fault.Before, Code: "UnauthorizedOperation", Nth: 3}))
	_, err = h.prepare(t, nil)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.Empty(t, h.lab.volumes())
}

func TestPrepare_Options_AreThoseOfTheVolumes(t *testing.T) {
	t.Parallel()
	h := newHandedOver(t)
	_, err := h.prepare(t, func(o *restore.Options) {
		o.Scope, o.Zone, o.Encrypt = volumes.ScopeData, "us-west-2b", true
		o.Volume = cluster.VolumeSpec{Type: "io2", IOPS: 4000}
	})
	require.NoError(t, err)
	require.Len(t, h.volumes, 3)
	for _, v := range h.volumes {
		require.Equal(t, cluster.RoleData, v.Role)
		made, _ := h.bed.EC2.Volume(v.ID)
		require.True(t, made.Encrypted)
		require.EqualValues(t, "us-west-2b", made.Zone)
		require.Equal(t, cluster.VolumeSpec{Type: "io2", IOPS: 4000, SizeGiB: 100}, made.Spec)
	}
	_, err = h.prepare(t, func(o *restore.Options) { o.Scope = volumes.ScopeOther })
	require.NoError(t, err)
	require.Len(t, h.volumes, 3)
	require.Equal(t, cluster.RoleRaftLog, h.volumes[0].Role)
}

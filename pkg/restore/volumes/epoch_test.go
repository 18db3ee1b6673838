package volumes

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runner"
)

// owner is a run that has not taken its lock.
func owner(store objstore.Store) Owner {
	o := Owner{Run: "r", Backup: "b", Target: cluster.Name{Namespace: "tidb", Name: "copy"}, Storage: store.URL()}
	o.Runner = runner.New(runner.Config{Run: o.Run, Cluster: o.Target, Store: store, Owner: runlock.Owner{Run: o.Run}})
	return o
}

// locked is a maker of a run that has taken its lock, as the n-th process to do so.
func locked(t *testing.T, e EBS, n int) *Maker {
	t.Helper()
	store := objstoretest.NewMemory(nil)
	var m *Maker
	for range n {
		m = NewMaker(e, owner(store), Options{}, nil, nil)
		fence := m.owner.Runner.Fence()
		require.NoError(t, fence.Take(t.Context(), time.Minute, runlock.Notify{Lost: func(error) {}}))
		t.Cleanup(func() { _ = fence.Release(context.WithoutCancel(t.Context())) })
		if n > 1 {
			require.NoError(t, fence.Release(t.Context()))
		}
	}
	return m
}

// Another process of the run has taken a volume over, and this one, which slept, did not see that it lost the lock.
func TestDoomed_VolumeOfALaterProcess_NoneIsDeleted(t *testing.T) {
	t.Parallel()
	m := locked(t, tagged{tags: map[string]ebs.Tags{"vol-pd": {ebs.TagEpoch: "2"}}}, 1)
	m.volumes = []Volume{{ID: "vol-1"}}
	doomed, err := m.doomed(t.Context(), map[cluster.VolumeID]bool{})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "vol-pd is another process's")
	require.Empty(t, doomed)
}

// EC2 refuses a token that comes with other tags than the first time.
func TestTags_AskedAgain_AreTheSame(t *testing.T) {
	t.Parallel()
	first, second := locked(t, nil, 1), locked(t, nil, 2)
	v := &Volume{Store: 1, Snapshot: "snap-1"}
	require.Equal(t, "1", first.request(v, 0).Tags[ebs.TagEpoch])
	require.Equal(t, "2", second.request(v, 0).Tags[ebs.TagEpoch], "nothing was asked for before")
	second.Continue(Earlier{Epoch: 1}, true)
	require.Equal(t, first.request(v, 0).Token, second.request(v, 0).Token)
	require.Equal(t, first.request(v, 0).Tags, second.request(v, 0).Tags)
	second.Continue(Earlier{Restarts: 1}, false)
	require.Equal(t, "2", second.request(v, 0).Tags[ebs.TagEpoch], "the run begins from scratch, with fresh tokens")
}

// What an earlier process asked for is this one's from then on.
func TestRetag_VolumesOfAnEarlierProcess_GetThisOnesEpoch(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		epoch int64
		want  map[string]ebs.Tags
	}{
		"an earlier process asked for them": {1, map[string]ebs.Tags{"vol-1": {ebs.TagEpoch: "2"}, "vol-2": {ebs.TagEpoch: "2"}}},
		"this one did":                      {0, map[string]ebs.Tags{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := tagged{tags: map[string]ebs.Tags{}}
			m := locked(t, e, 2)
			m.earlier.Epoch, m.volumes = row.epoch, []Volume{{ID: "vol-1"}, {ID: "vol-2"}}
			require.NoError(t, m.owner.Runner.Check(t.Context(), phase.Step{
				Phase: "p", Name: "adopt", Deadline: time.Minute, ReadOnly: true,
				Do: func(ctx context.Context, s *phase.Scope) error { m.retag(ctx, s); return nil },
			}))
			require.Equal(t, row.want, e.tags)
		})
	}
}

// A later process has taken the volumes over: what this one, which slept, finds different is not lost. With its own epoch put back
// its undo would take them for its own.
func TestCheckTags_VolumeOfALaterProcess_KeepsItsEpoch(t *testing.T) {
	t.Parallel()
	e := tagged{tags: map[string]ebs.Tags{}}
	m := locked(t, e, 1)
	whole, untagged := &Volume{ID: "vol-1", Store: 1, Snapshot: "snap-1"}, &Volume{ID: "vol-2", Store: 2, Snapshot: "snap-2"}
	var found []ebs.Volume
	for _, v := range []*Volume{whole, untagged} {
		tags := maps.Clone(m.tags(v))
		tags[ebs.TagEpoch] = "2"
		found = append(found, ebs.Volume{ID: v.ID, Tags: tags})
	}
	delete(found[1].Tags, ebs.TagRun)
	require.NoError(t, m.owner.Runner.Check(t.Context(), phase.Step{
		Phase: "p", Name: "check-tags", Deadline: time.Minute, ReadOnly: true,
		Do: func(ctx context.Context, s *phase.Scope) error {
			m.checkTags(ctx, s, map[cluster.VolumeID]*Volume{whole.ID: whole, untagged.ID: untagged}, found)
			return nil
		},
	}))
	require.Equal(t, map[string]ebs.Tags{"vol-2": {ebs.TagRun: "r"}}, e.tags)
}

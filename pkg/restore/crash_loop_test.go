package restore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// loseData puts an empty disk of data into a store's snapshot: TiKV ends each time that it is started on it.
func (l *lab) loseData(t *testing.T, store string) {
	t.Helper()
	lost := 0
	for _, s := range l.bed.EC2.Snapshots() {
		if s.Tags[ebs.TagStore] == store && s.Tags[ebs.TagVolumeOf+string(cluster.RoleData)] == string(s.Volume) {
			require.NoError(t, l.bed.EC2.SetImage(s.ID, disk.Cut(disk.New(1 << 30))[0]))
			lost++
		}
	}
	require.Equal(t, 1, lost)
}

// It was waited for until the deadline of an hour, and the reason was in the pod's log alone.
func TestRun_StoreCrashesBeforeItReachesPD_EndsWithItsLastLogLine(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.loseData(t, "2")
	_, err := l.restore(within(t), t, nil, nil)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "not the deadline: %v", err)
	require.Regexp(t, `TiKV of store 2 ends as soon as it is started: pod copy-tikv-\d was restarted [4-9] times`, err.Error())
	require.ErrorContains(t, err, "no store ident on the data volume")
	require.Regexp(t, `kubectl -n tidb logs copy-tikv-\d -c tikv --previous`, failure.HintOf(err))
	require.Contains(t, failure.HintOf(err), "tisnap restore b --to tidb/copy --tolerate-store 2")
	l.nothingLeft(t)
}

// The real Operator starts TiDB as soon as one store is up, so the restore ends although one never comes.
func TestRun_ToleratedStoreNeverComes_IsRestoredWithoutIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.loseData(t, "2")
	result, err := l.restore(within(t), t, nil, func(o *restore.Options) { o.TolerateStores = []cluster.StoreID{2} })
	require.NoError(t, err)
	require.True(t, result.Restored)
	require.Len(t, result.Volumes, 6, "those of the lost store too: it may come later")
}

func TestRun_ToleratesAStoreThatTheBackupLacks_IsRefusedBeforeAnyChange(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	before := l.bed.EC2.MutatingCalls()
	_, err := l.restore(within(t), t, nil, func(o *restore.Options) { o.TolerateStores = []cluster.StoreID{9} })
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "backup b has no store 9")
	require.Equal(t, before, l.bed.EC2.MutatingCalls())
	l.nothingLeft(t)
}

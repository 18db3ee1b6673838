package restore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// While PD comes up the volumes are made, and TiDB comes up while leaders are elected; with Serial each step waits for the one before it.
func TestRun_VolumesAreMade_WhileTheClusterComesUp(t *testing.T) {
	t.Parallel()
	for name, serial := range map[string]bool{"overlapping": false, "serial": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			result, err := l.restore(within(t), t, nil, func(o *restore.Options) { o.Serial = serial })
			require.NoError(t, err)
			require.True(t, result.Restored)
			begun, ended := map[string]time.Time{}, map[string]time.Time{}
			overlap := 0.0
			for _, p := range result.Timings {
				overlap += p.OverlapSeconds
				for _, s := range p.Steps {
					begun[s.Name] = s.Start
					ended[s.Name] = s.Start.Add(time.Duration(s.Seconds * float64(time.Second)))
				}
			}
			require.Equal(t, serial, !begun[journal.StepCreateVolumes].Before(ended["await-pd"]), "volumes are made before PD is up")
			require.Equal(t, serial, overlap == 0)
			for _, before := range []string{journal.StepBindVolumes, "mark-recovering", "await-volumes"} {
				require.False(t, begun["start-tikv"].Before(ended[before]), "start-tikv before the end of %s", before)
			}
			require.Equal(t, serial, !begun["collect"].Before(ended["await-stores"]), "stores are read as they come")
			for _, before := range []string{"await-stores", "check-tasks", "collect"} {
				require.False(t, begun["plan"].Before(ended[before]), "the plan before the end of %s", before)
			}
			require.Equal(t, serial, !begun["await-tidb"].Before(ended["await-leaders"]), "TiDB comes up while leaders are elected")
			require.False(t, begun["thaw"].Before(ended["await-tidb"]))
			require.Equal(t, phase.Done, result.Timings[len(result.Timings)-1].Outcome)
		})
	}
}

// Steps that run side by side end in any order: whichever is last, the run succeeds, and one that is cancelled while the
// other is under way undoes what both did. The race detector sees each order.
func TestRun_StepsSideBySide_InEveryOrder(t *testing.T) { //nolint:tparallel // the parts share a testbed and follow each other
	t.Parallel()
	l := newLab(t)
	const late = 2 * time.Second
	for _, row := range []struct {
		name, slow, beside string
		at                 phase.EventType
	}{
		{"volumes come last", "ec2.CreateVolume", "await-pd", phase.StepStarted},
		{"PD comes last", "pd.MarkRecovering", journal.StepBindVolumes, phase.StepFinished},
		{"a store's regions come last", "tikv.*.ReadRegionMeta", "await-stores", phase.StepFinished},
	} {
		t.Run(row.name, func(t *testing.T) {
			l.faults.Clear()
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			var both atomic.Int32 // the step beside it, and the call that is slow: either may be the first
			cancelAtSecond := func() {
				if both.Add(1) == 2 {
					cancel()
				}
			}
			require.NoError(t, l.faults.Add(fault.Rule{Point: row.slow, Position: fault.Slow, Delay: late, Times: -1, Do: sync.OnceFunc(cancelAtSecond)}))
			sink := &cancelAt{step: row.beside, at: row.at, cancel: sync.OnceFunc(cancelAtSecond)}
			_, err := l.restore(ctx, t, sink, nil)
			require.ErrorIs(t, err, context.Canceled)
			require.True(t, sink.hit)
			l.nothingLeft(t)
			require.Empty(t, l.faults.Unreached())
		})
	}
}

// Each of the calls is slow, and all of them end well.
func TestRun_StepsSideBySide_OneIsSlow_IsRestored(t *testing.T) { //nolint:tparallel // the parts share a testbed and follow each other
	t.Parallel()
	l := newLab(t)
	const late = 2 * time.Second
	for _, row := range []struct{ point string }{{"ec2.CreateVolume"}, {"pd.MarkRecovering"}, {"tikv.2.ReadRegionMeta"}, {"tikv.*.CheckPendingAdminOp"}} {
		t.Run("slow "+row.point, func(t *testing.T) {
			l.faults.Clear()
			require.NoError(t, l.faults.Add(fault.Rule{Point: row.point, Position: fault.Slow, Delay: late, Times: 3}))
			result, err := l.restore(within(t), t, nil, nil)
			require.NoError(t, err)
			require.True(t, result.Restored)
			require.Empty(t, l.faults.Unreached())
			_, err = l.bed.DestroyCluster(within(t), target())
			require.NoError(t, err)
		})
	}
}

package restore

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// A process that was suspended wakes with its deadlines behind it: that another run has the cluster by now is what a
// script has to know, and not that the time was too short.
func TestConclude_OutOfTimeAfterTheLockWasLost_SaysThatItWasLost(t *testing.T) {
	t.Parallel()
	late := failure.New(failure.Limited, "wait for leaders", "tidb/copy", "out of time")
	for name, row := range map[string]struct {
		lost bool
		want failure.Kind
	}{"lost": {true, failure.Conflict}, "still held": {false, failure.Limited}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := Options{}
			r := &run{opts: opts, fence: runlock.NewFence(objstoretest.NewMemory(nil), opts.Target, runlock.Owner{Run: "r"})}
			if row.lost {
				r.fence.Lose(failure.New(failure.Conflict, "check lock", "tidb/copy", "run other has it"))
			}
			err := r.conclude(late)
			require.Equal(t, row.want, failure.KindOf(err))
			require.ErrorContains(t, err, "out of time")
		})
	}
}

package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// A process that was suspended wakes with its deadlines behind it: that another run has the cluster by now is what a
// script has to know, and not that the time was too short.
func TestExplain_OutOfTimeAfterTheLockWasLost_ReportsTheLoss(t *testing.T) {
	t.Parallel()
	late := failure.New(failure.Limited, "wait for leaders", "tidb/copy", "out of time")
	cut := failure.New(failure.Unknown, "take timestamp", "tidb/copy", "context canceled: out of time")
	held := failure.New(failure.Held, "release", "tidb/copy", "it is held and out of time")
	for name, row := range map[string]struct {
		err  error
		lost bool
		want failure.Kind
	}{
		"lost": {late, true, failure.Conflict}, "still held": {late, false, failure.Limited},
		"lost in a call": {cut, true, failure.Conflict}, "in a call": {cut, false, failure.Unknown},
		"lost and not released": {held, true, failure.Held},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New(Config{Operation: "restore", Store: objstoretest.NewMemory(nil), Owner: runlock.Owner{Run: "r"}})
			if row.lost {
				r.fence.Lose(failure.New(failure.Conflict, "check lock", "tidb/copy", "run other has it"))
			}
			err := r.explain(t.Context(), row.err)
			require.Equal(t, row.want, failure.KindOf(err))
			require.ErrorContains(t, err, "out of time")
		})
	}
}

package backup_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// EC2 promises no order of its answers: one that is older than the last answer of the wait is no reason to delete a set
// that took hours.
func TestSeal_AnswerThatIsOlder_DoesNotThrowTheSetAway(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]func([]ebs.Snapshot) []ebs.Snapshot{
		"a snapshot is not there": func(found []ebs.Snapshot) []ebs.Snapshot { return found[1:] },
		"a snapshot is pending":   pending,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var left atomic.Int64
			r.events.at("seal", func() { left.Store(1) })
			r.ebs.shown = func(found []ebs.Snapshot) []ebs.Snapshot {
				if left.Add(-1) == 0 {
					return older(found)
				}
				return found
			}
			o := r.options()
			result, err := r.run(t.Context(), t, o)
			require.NoError(t, err)
			require.True(t, result.Sealed)
			require.Negative(t, left.Load(), "the seal asked again")
			r.requireSealed(t, o)
		})
	}
}

// An answer is as old as its question: the process may be suspended until it has it. One that is older than the last
// answer does not throw the set away by arriving when EC2 could not hide a snapshot any more.
func TestRun_AnswerThatIsOlderArrivesLate_DoesNotThrowTheSetAway(t *testing.T) {
	t.Parallel()
	for step, older := range map[string]int64{"wait": 2, "seal": 1} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(rules *ebstest.Rules) { rules.Invisible = ebstest.Span{} }) // the spy hides one
			o := r.options()
			o.Visibility = time.Second
			var left atomic.Int64
			r.events.at(step, func() { left.Store(older + 1) })
			r.ebs.shown = func(found []ebs.Snapshot) []ebs.Snapshot {
				switch n := left.Add(-1); {
				case n < 1:
					return found
				case n == 1:
					assert.NoError(t, wait.For(t.Context(), o.Visibility+100*time.Millisecond))
				}
				return found[1:]
			}
			result, err := r.run(t.Context(), t, o)
			require.NoError(t, err)
			require.True(t, result.Sealed)
			require.LessOrEqual(t, left.Load(), int64(0), "the step asked again")
			r.requireSealed(t, o)
		})
	}
}

// What stays missing is missing: nothing is sealed whose snapshots are not all there and completed.
func TestSeal_SnapshotMissingOrNotCompleted_SealsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shown func([]ebs.Snapshot) []ebs.Snapshot
		want  string
	}{
		"not there": {func(found []ebs.Snapshot) []ebs.Snapshot { return found[1:] }, "5 of 6 snapshots exist and are completed"},
		"pending":   {pending, "5 of 6 snapshots exist and are completed"},
		"in error": {func(found []ebs.Snapshot) []ebs.Snapshot {
			found[0].State = ebs.SnapshotError
			return found
		}, `is "error"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var sealing atomic.Bool
			r.events.at("seal", func() { sealing.Store(true) })
			r.ebs.shown = func(found []ebs.Snapshot) []ebs.Snapshot {
				if sealing.Load() {
					return c.shown(found)
				}
				return found
			}
			o := r.options()
			o.Visibility = 2 * time.Second
			result, err := r.run(t.Context(), t, o)
			require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.want)
			require.False(t, result.Sealed)
			r.requireUndone(t, o)
		})
	}
}

func pending(found []ebs.Snapshot) []ebs.Snapshot {
	found[0].State = ebs.SnapshotPending
	return found
}

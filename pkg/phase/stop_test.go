package phase_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

var errTerm = errors.New("terminated")

// net/http returns the cause of the context that ended a call: it is not a failure of the other side, and not tried again.
func TestStopError_IsACancellation(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&phase.StopError{Reason: errTerm})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:1", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		require.NoError(t, response.Body.Close())
	}
	require.ErrorIs(t, err, errTerm, "the cause, and no context.Canceled of its own")
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, failure.Transient(err))
}

// A process that has to end by a time bounds each undo by it, and gives the rest a moment each to list what they leave.
func TestRun_StoppedByATime_BoundsEachUndo(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		by   time.Time
		most time.Duration
	}{
		"in time":      {time.Now().Add(10 * time.Minute), 10 * time.Minute},
		"over already": {time.Now().Add(-time.Minute), time.Second},
		"no bound":     {time.Time{}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			var limits []time.Duration
			undo := func(ctx context.Context, _ *phase.Scope) error {
				require.NoError(t, ctx.Err(), "the run's cancellation does not end it")
				deadline, ok := ctx.Deadline()
				require.True(t, ok)
				limits = append(limits, time.Until(deadline))
				return nil
			}
			nothing := func(context.Context, *phase.Scope) error { return nil }
			err := phase.New(phase.Config{Journal: phase.NoJournal{}}).Run(ctx, []phase.Step{
				{Phase: "p", Name: "a", Deadline: time.Minute, Do: nothing, Undo: phase.Undo{Do: undo, Deadline: time.Hour}},
				{Phase: "p", Name: "b", Deadline: time.Minute, Do: nothing, Undo: phase.Undo{Do: undo, Deadline: time.Hour}},
				{Phase: "p", Name: "c", Deadline: time.Minute, Do: func(ctx context.Context, _ *phase.Scope) error {
					cancel(&phase.StopError{Reason: errTerm, UndoBy: row.by})
					return context.Cause(ctx)
				}},
			})
			require.ErrorIs(t, err, errTerm)
			require.Len(t, limits, 2)
			for _, limit := range limits {
				assert.LessOrEqual(t, limit, row.most)
				assert.Greater(t, limit, row.most/4, "the moment that it is given")
			}
		})
	}
}

func TestRemains_LinesInOrder_HoldIsKnown(t *testing.T) {
	t.Parallel()
	var none *phase.Remains
	none.Set("run", func() string { return "x" }) // a run without one
	var r phase.Remains
	r.Set("run", func() string { return "run" })
	r.Set(phase.RemainsHold, func() string { return "hold" })
	lines, held := r.Lines()
	assert.Equal(t, []string{"run", "hold"}, lines)
	assert.True(t, held)
	r.Clear(phase.RemainsHold)
	lines, held = r.Lines()
	assert.Equal(t, []string{"run"}, lines)
	assert.False(t, held)
}

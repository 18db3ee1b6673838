package phase_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
)

// A process that continues the run after this one died in an undo may not take what the run made for whole: it learns of the undo
// from the journal. Releasing waits for no record, and an object storage that is away keeps nothing from being undone.
func TestUndo_ThatTakesAway_WaitsForItsRecordAndNotForEver(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		delay    time.Duration
		recorded bool
	}{
		"storage is slow": {2 * time.Second, true},
		"storage is away": {time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				j := &memory{}
				var failed, released, took time.Time
				recorded := false
				none := func(context.Context, *phase.Scope) error { return nil }
				_ = phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{
					{Phase: "p", Name: "make", Deadline: time.Minute, Do: none, Undo: phase.Undo{Do: func(ctx context.Context, _ *phase.Scope) error {
						records, err := j.Records(ctx)
						took, recorded = time.Now(), slices.ContainsFunc(records, func(r phase.Record) bool {
							return r.Type == phase.RecordUndo && r.Step == "make"
						})
						return err
					}}},
					{Phase: "p", Name: "hold", Deadline: time.Minute, Undo: phase.Undo{First: true, Unfenced: "it releases it", Do: func(context.Context, *phase.Scope) error { released = time.Now(); return nil }}, Do: none},
					{Phase: "p", Name: "fail", Deadline: time.Minute, Do: func(context.Context, *phase.Scope) error {
						failed, j.delay = time.Now(), row.delay
						return errors.New("no room")
					}},
				})
				require.Zero(t, released.Sub(failed))
				require.Equal(t, row.recorded, recorded)
				require.LessOrEqual(t, took.Sub(failed), 12*time.Second)
			})
		})
	}
}

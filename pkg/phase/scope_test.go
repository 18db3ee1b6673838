package phase_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
)

// What an intent names may exist from the moment that Intent returns: gc and release know of it only by the journal.
func TestIntent_WaitsForTheJournal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := &memory{delay: 2 * time.Second}
		durable := false
		require.NoError(t, phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{{
			Phase: "p", Name: "s", Deadline: time.Minute,
			Do: func(ctx context.Context, s *phase.Scope) error {
				if err := s.Intent(ctx, "create", []string{"a"}); err != nil {
					return err
				}
				records, err := j.Records(ctx)
				last := records[len(records)-1]
				durable = last.Type == phase.RecordIntent && last.Name == "create" && string(last.Data) == `["a"]`
				return err
			},
		}}))
		require.True(t, durable)
	})
}

func TestIntent_JournalRefuses_TheEffectIsNotMade(t *testing.T) {
	t.Parallel()
	away := errors.New("storage is away")
	j := &memory{refuse: func(r phase.Record) error {
		if r.Type == phase.RecordIntent {
			return away
		}
		return nil
	}}
	made := false
	err := phase.New(phase.Config{Journal: j}).Run(t.Context(), []phase.Step{{
		Phase: "p", Name: "s", Deadline: time.Minute,
		Do: func(ctx context.Context, s *phase.Scope) error {
			if err := s.Intent(ctx, "create", nil); err != nil {
				return err
			}
			made = true
			return nil
		},
	}})
	require.ErrorIs(t, err, away)
	require.False(t, made)
}

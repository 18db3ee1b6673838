package cli

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// heard keeps what a run says.
type heard struct{ notes []string }

func (h *heard) Emit(e phase.Event) {
	if e.Type == phase.Note {
		h.notes = append(h.notes, e.Message)
	}
}

// A machine that has never read the storage knows what its last runs took, and one that cannot read it runs without.
func TestETA_IsOfTheStoragesOwnRuns(t *testing.T) { //nolint:paralleltest // it sets the cache's folder
	store, err := objstore.Open(t.Context(), reported(t), objstore.Config{})
	require.NoError(t, err)
	anyRun := func(*history.Run) bool { return true }
	g := &globalFlags{}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	h := &heard{}
	require.Same(t, h, g.withETA(ended, h, store, report.Backup, anyRun), "nothing is known, and nobody is to be asked")

	g.withETA(t.Context(), h, store, report.Backup, anyRun).Emit(phase.Event{Type: phase.PhaseStarted, Phase: report.VolumeSnapshots})
	require.Len(t, h.notes, 1)
	require.Regexp(t, `^expected to take 1m40.*, by the last 8 backups of this storage$`, h.notes[0])

	h = &heard{}
	of := func(r *history.Run) bool { return r.Backup == "nightly-3" } // never restored
	g.withETA(t.Context(), h, store, report.Restore, of).Emit(phase.Event{Type: phase.PhaseStarted, Phase: report.ResolveData})
	require.Len(t, h.notes, 1)
	require.Contains(t, h.notes[0], "by the published tables")

	h = &heard{}
	require.NotSame(t, h, g.withETA(ended, h, store, report.Backup, anyRun), "what was read before is known")
}

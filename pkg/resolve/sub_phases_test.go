package resolve_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
)

// seen keeps the last progress of every step.
type seen struct {
	mu   sync.Mutex
	last map[string]phase.Event
}

func (s *seen) Emit(e phase.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Type == phase.Progress {
		s.last[e.Step] = e
	}
}

// countedSubPhases: each sub-phase that takes time reports how much it has done of how much, from which the renderers
// make the rate and the time that is left.
func countedSubPhases(t *testing.T, o *original) {
	l := restoreLab(t, o, 1, quickChecks)
	r := resolve.New(l.client, nil)
	cfg := l.config(o, "run")
	r.Target(cfg, l.oracle)
	t.Cleanup(func() { _ = r.Thaw(t.Context(), nil) })
	sink := &seen{last: map[string]phase.Event{}}
	journal := journal.NewStoreJournal(objstoretest.NewMemory(nil), "runs/run")
	require.NoError(t, phase.New(phase.Config{Run: "run", Journal: journal, Sink: sink}).Run(within(t), r.Steps("resolve data", resolve.StepOptions{})))
	regions := int64(r.Stats().Regions)
	want := map[string]struct {
		total int64
		unit  string
	}{
		"recover":   {regions, "regions"},
		"apply":     {2 * int64(len(cfg.Stores)), "answers"},
		"prepare":   {regions, "regions"},
		"flashback": {regions, "regions"},
	}
	for step, w := range want {
		t.Run(step, func(t *testing.T) {
			e, reported := sink.last[step]
			require.True(t, reported, "%s of %v", step, sink.last)
			require.Equal(t, w.unit, e.Unit, step)
			require.Equal(t, w.total, e.Total, step)
			require.Equal(t, w.total, e.Done, step)
		})
	}
	require.Contains(t, sink.last, "collect")
	require.True(t, r.Stats().WaitedApply)
}

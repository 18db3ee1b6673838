package phase_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
)

func TestStoreTimes_LongestOfEachPart_ByStore(t *testing.T) {
	t.Parallel()
	times := new(phase.StoreTimes)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			times.Note(7, "volume", time.Duration(i)*time.Second)
			times.Note(2, "pod", -time.Second)
		})
	}
	wg.Wait()
	require.Equal(t, []phase.StoreParts{
		{Store: 2, Parts: []phase.Part{{Name: "pod"}}},
		{Store: 7, Pod: "tikv-1", Parts: []phase.Part{{Name: "volume", Seconds: 9}}},
	}, times.Stores(map[cluster.StoreID]string{7: "tikv-1"}))
}

func TestStoreTimes_Nil_CollectsNothing(t *testing.T) {
	t.Parallel()
	var times *phase.StoreTimes
	times.Note(1, "volume", time.Second)
	require.Nil(t, times.Stores(nil))
}

// Every phase's time survives the crash: a process that resumes a run reports the parts of the steps that the one before
// has done, and how long they took on each store.
func TestStoreTimes_ProcessDied_TheNextOneHasItsParts(t *testing.T) {
	t.Parallel()
	memory := objstoretest.NewMemory(nil)
	kept := journal.NewStoreJournal(memory, "runs/r/journal/")
	steps := func(times *phase.StoreTimes, volumes func(*phase.Scope) error, serve func() error) []phase.Step {
		return []phase.Step{
			{Phase: "restore", Name: "lock", Deadline: time.Minute, Resume: phase.Resumption{Repeat: true}, Do: func(context.Context, *phase.Scope) error { return nil }},
			{Phase: "restore", Name: "volumes", Deadline: time.Minute, Do: func(_ context.Context, s *phase.Scope) error {
				times.Note(4, "volume", 5*time.Second)
				return volumes(s)
			}},
			{Phase: "restore", Name: "serve", Deadline: time.Minute, Do: func(context.Context, *phase.Scope) error {
				times.Note(4, "volume", 3*time.Second)
				times.Note(4, "pod", time.Second)
				return serve()
			}},
		}
	}
	first, dies := new(phase.StoreTimes), errors.New("killed")
	cfg := continuing(kept, nil, func() {})
	cfg.Times = first
	err := phase.New(cfg).Run(t.Context(), steps(first, func(s *phase.Scope) error { s.Part("ask")(); return nil }, func() error { return dies }))
	require.ErrorIs(t, err, dies)
	records, err := kept.Records(t.Context())
	require.NoError(t, err)
	// What a process that was killed leaves: the records up to the begin of its last step.
	last := slices.IndexFunc(records, func(r phase.Record) bool { return r.Type == phase.RecordFailed })
	killed := journal.NewStoreJournal(objstoretest.NewMemory(nil), "runs/r/journal/")
	for _, r := range records[:last] {
		require.NoError(t, killed.Append(t.Context(), r))
	}

	second := new(phase.StoreTimes)
	cfg.Journal, cfg.Times = killed, second
	e := phase.New(cfg)
	require.NoError(t, e.Run(t.Context(), steps(second, func(*phase.Scope) error { return dies }, func() error { return nil })))
	require.Equal(t, []phase.StoreParts{
		{Store: 4, Parts: []phase.Part{{Name: "volume", Seconds: 5}, {Name: "pod", Seconds: 1}}},
	}, second.Stores(nil))
	var parts []phase.Part
	for _, p := range e.Timings() {
		for _, s := range p.Steps {
			parts = append(parts, s.Parts...)
		}
	}
	require.Len(t, parts, 1)
	require.Equal(t, "ask", parts[0].Name)
	// And a journal that was compacted has them all the same, in records that are read as they were written.
	before, err := killed.Records(t.Context())
	require.NoError(t, err)
	_, err = killed.Compact(t.Context())
	require.NoError(t, err)
	after, err := killed.Records(t.Context())
	require.NoError(t, err)
	require.Len(t, after, len(before))
	for i := range before {
		before[i].Sum, after[i].Sum = "", "" // the checksum of one is that of its own object
	}
	require.Equal(t, before, after)
}

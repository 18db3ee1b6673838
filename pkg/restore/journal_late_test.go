package restore_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
)

// lateJournal is a storage that answers 503 to the next write of a run's journal once it is armed.
type lateJournal struct {
	objstore.Store
	prefix         string
	armed, refused atomic.Bool
}

func (s *lateJournal) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if strings.HasPrefix(key, s.prefix) && s.armed.CompareAndSwap(true, false) {
		s.refused.Store(true)
		return "", failure.New(failure.Limited, "put object", key, "503 Slow Down")
	}
	return s.Store.Create(ctx, key, body)
}

// The storage is away for a moment while the data are resolved: hours of work are not undone for one record that is late.
func TestRun_JournalIsAwayWhileTheDataAreResolved_IsRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	sink := &atStep{step: journal.StepRecover, end: func() {}}
	deps, opts := l.next(t, sink)
	store := &lateJournal{Store: deps.Store, prefix: manifest.JournalPrefix(opts.Run)}
	sink.begin = func() { store.armed.Store(true) }
	deps.Store = store
	result, err := restore.Run(within(t), deps, opts)
	require.NoError(t, err)
	require.True(t, result.Restored)
	require.True(t, store.refused.Load())
	records, err := journal.NewStoreJournal(l.store, manifest.JournalPrefix(opts.Run)).Records(t.Context())
	require.NoError(t, err)
	require.Equal(t, phase.RecordEnd, records[len(records)-1].Type, "nothing is missing in the end")
}

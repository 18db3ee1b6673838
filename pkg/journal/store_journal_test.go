package journal_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// stale lists what was there when it was made.
type stale struct {
	objstore.Store
	objects []objstore.Object
}

func (s *stale) List(context.Context, string) ([]objstore.Object, error) { return s.objects, nil }

func TestStoreJournal_ListIsOld_ReadsTheLastRecordsAllTheSame(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	j := journal.NewStoreJournal(store, "runs/r/journal/")
	require.NoError(t, j.Append(t.Context(), phase.Record{Seq: 1, Type: phase.RecordRun}))
	objects, err := store.List(t.Context(), "")
	require.NoError(t, err)
	for seq := 2; seq <= 4; seq++ {
		require.NoError(t, j.Append(t.Context(), phase.Record{Seq: seq, Type: phase.RecordBegin, Epoch: 3}))
	}
	got, err := journal.NewStoreJournal(&stale{Store: store, objects: objects}, "runs/r/journal/").Records(t.Context())
	require.NoError(t, err)
	assert.Len(t, got, 4)
}

func TestStoreJournal_DamagedOrOutOfOrder_IsCorrupt(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"another checksum": `{"seq":2,"time":"2026-01-01T00:00:00Z","run":"r","type":"done","step":"cut","v":1,"sum":"0011223344556677"}`,
		"an older epoch":   `{"seq":2,"time":"2026-01-01T00:00:00Z","run":"r","type":"done","step":"cut","epoch":1}`,
		"another number":   `{"seq":3,"time":"2026-01-01T00:00:00Z","run":"r","type":"done","step":"cut"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			j := journal.NewStoreJournal(store, "j/")
			require.NoError(t, j.Append(t.Context(), phase.Record{Seq: 1, Type: phase.RecordRun, Epoch: 2}))
			_, err := store.Create(t.Context(), "j/000002.json", []byte(damage))
			require.NoError(t, err)
			_, err = j.Records(t.Context())
			assert.Equal(t, failure.Corrupt, failure.KindOf(err))
		})
	}
}

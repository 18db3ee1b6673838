package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
)

const journalPrefix = "runs/r/journal/"

// ended is a store with the journal of a run that has ended, of n records.
func ended(t *testing.T, n int) (objstore.Store, []phase.Record) {
	t.Helper()
	store := objstoretest.NewMemory(nil)
	j := journal.NewStoreJournal(store, journalPrefix)
	for seq := 1; seq <= n; seq++ {
		r := phase.Record{Seq: seq, Run: "20260101t000000-0011aabb", Time: time.Unix(int64(seq), 7).UTC(), Type: phase.RecordResult, Step: "create-volumes", Name: "volume", Epoch: 2}
		r.Data = json.RawMessage(fmt.Sprintf(`{"generation":0,"snapshot":"snap-0%016x","volume":"vol-0%016x"}`, seq, seq))
		switch seq {
		case 1:
			r.Type, r.Data = phase.RecordRun, json.RawMessage(`{"operation":"restore","hint":"a \u003c b"}`)
		case n:
			r.Type, r.Data, r.Error, r.Seconds = phase.RecordEnd, nil, "line\nline", 1.5
		}
		require.NoError(t, j.Append(t.Context(), r))
	}
	records, err := j.Records(t.Context())
	require.NoError(t, err)
	require.Len(t, records, n)
	return store, records
}

// same compares the contents of records; the checksum of one is that of its own object.
func same(t *testing.T, want, got []phase.Record, message ...any) {
	t.Helper()
	require.Len(t, got, len(want), message...)
	want, got = slices.Clone(want), slices.Clone(got) // subtests share them
	for i := range want {
		want[i].Sum, got[i].Sum = "", ""
	}
	require.Equal(t, want, got, message...)
}

func objects(t *testing.T, store objstore.Store) (n int, bytes int64) {
	t.Helper()
	list, err := store.List(t.Context(), journalPrefix)
	require.NoError(t, err)
	for _, o := range list {
		bytes += o.Size
	}
	return len(list), bytes
}

func TestCompact_RestoreOf300Stores_IsTwoObjectsWithAllRecords(t *testing.T) {
	t.Parallel()
	const volumes = 3 * 300
	store, want := ended(t, volumes+100)
	before, bytesBefore := objects(t, store)
	removed, err := journal.NewStoreJournal(store, journalPrefix).Compact(t.Context())
	require.NoError(t, err)
	assert.Equal(t, before-1, removed)
	after, bytesAfter := objects(t, store)
	t.Logf("before: %d objects of %d bytes; compacted: %d objects of %d bytes", before, bytesBefore, after, bytesAfter)
	assert.Equal(t, 2, after)
	assert.Less(t, bytesAfter, bytesBefore*3/4)
	got, err := journal.NewStoreJournal(store, journalPrefix).Records(t.Context())
	require.NoError(t, err)
	same(t, want, got)
	removed, err = journal.NewStoreJournal(store, journalPrefix).Compact(t.Context())
	require.NoError(t, err)
	assert.Zero(t, removed)
}

func TestCompact_RunHasNotEnded_StaysAsItIs(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	j := journal.NewStoreJournal(store, journalPrefix)
	for seq := 1; seq <= 5; seq++ {
		require.NoError(t, j.Append(t.Context(), phase.Record{Seq: seq, Type: phase.RecordBegin}))
	}
	removed, err := j.Compact(t.Context())
	require.NoError(t, err)
	assert.Zero(t, removed)
	n, _ := objects(t, store)
	assert.Equal(t, 5, n)
}

// interrupted fails all changes after so many.
type interrupted struct {
	objstore.Store
	mu   sync.Mutex
	left int
}

var errInterrupted = errors.New("the process is dead")

func (s *interrupted) spend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left < 0 {
		return errInterrupted
	}
	return nil
}

func (s *interrupted) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if err := s.spend(); err != nil {
		return "", err
	}
	return s.Store.Create(ctx, key, body)
}

func (s *interrupted) Delete(ctx context.Context, key string) error {
	if err := s.spend(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

func TestCompact_Interrupted_NothingIsLostAndItCanBeFinished(t *testing.T) {
	t.Parallel()
	const records = 12
	for changes := range records {
		t.Run(fmt.Sprint(changes), func(t *testing.T) {
			t.Parallel()
			store, want := ended(t, records)
			_, err := journal.NewStoreJournal(&interrupted{Store: store, left: changes}, journalPrefix).Compact(t.Context())
			require.ErrorIs(t, err, errInterrupted)
			got, err := journal.NewStoreJournal(store, journalPrefix).Records(t.Context())
			require.NoError(t, err)
			same(t, want, got)
			_, err = journal.NewStoreJournal(store, journalPrefix).Compact(t.Context())
			require.NoError(t, err)
			n, _ := objects(t, store)
			assert.Equal(t, 2, n)
			got, err = journal.NewStoreJournal(store, journalPrefix).Records(t.Context())
			require.NoError(t, err)
			same(t, want, got)
		})
	}
}

// during calls a function before the n-th read of a record.
type during struct {
	objstore.Store
	mu    sync.Mutex
	reads int
	at    int
	do    func()
}

func (s *during) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	s.mu.Lock()
	s.reads++
	if s.reads == s.at {
		s.do()
	}
	s.mu.Unlock()
	return s.Store.Get(ctx, key)
}

func TestCompact_WhileItIsRead_TheReaderSeesAll(t *testing.T) {
	t.Parallel()
	for at := 1; at <= 14; at++ {
		for name, stops := range map[string]int{"whole": 1000, "interrupted": 7} {
			t.Run(fmt.Sprint(name, at), func(t *testing.T) {
				t.Parallel()
				store, want := ended(t, 12)
				compact := func() {
					_, err := journal.NewStoreJournal(&interrupted{Store: store, left: stops}, journalPrefix).Compact(context.WithoutCancel(t.Context()))
					assert.True(t, err == nil || errors.Is(err, errInterrupted))
				}
				got, err := journal.NewStoreJournal(&during{Store: store, at: at, do: compact}, journalPrefix).Records(t.Context())
				require.NoError(t, err)
				same(t, want, got)
			})
		}
	}
}

func TestCompact_ListIsOldOrEmpty_ReadsAllTheSame(t *testing.T) {
	t.Parallel()
	store, want := ended(t, 12)
	old, err := store.List(t.Context(), journalPrefix)
	require.NoError(t, err)
	_, err = journal.NewStoreJournal(store, journalPrefix).Compact(t.Context())
	require.NoError(t, err)
	for name, list := range map[string][]objstore.Object{"old": old, "empty": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := journal.NewStoreJournal(&stale{Store: store, objects: list}, journalPrefix).Records(t.Context())
			require.NoError(t, err)
			same(t, want, got)
		})
	}
}

// A process that was suspended before the run was taken over, ended and compacted finds the key of its next record free.
func TestCompact_AnotherRunnerComesBack_CannotWrite(t *testing.T) {
	t.Parallel()
	store, want := ended(t, 12)
	_, err := journal.NewStoreJournal(store, journalPrefix).Compact(t.Context())
	require.NoError(t, err)
	for _, seq := range []int{2, 7, 12, 13} {
		err = journal.NewStoreJournal(store, journalPrefix).Append(t.Context(), phase.Record{Seq: seq, Type: phase.RecordBegin, Step: "cut"})
		require.Equal(t, failure.Conflict, failure.KindOf(err), "record %d", seq)
	}
	n, _ := objects(t, store)
	assert.Equal(t, 2, n, "nothing of it stays")
	got, err := journal.NewStoreJournal(store, journalPrefix).Records(t.Context())
	require.NoError(t, err)
	same(t, want, got)
}

func TestCompact_Damaged_IsCorrupt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		kind failure.Kind
	}{
		"no head":        {"{}\n", failure.Corrupt},
		"other bytes":    {`{"v":2,"type":"compacted","run":"r","records":1,"sum":"00"}` + "\n{}\n", failure.Corrupt},
		"a newer format": {`{"v":3,"type":"compacted"}` + "\n", failure.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			_, err := store.Create(t.Context(), journalPrefix+"000000.json", []byte(c.body))
			require.NoError(t, err)
			_, err = journal.NewStoreJournal(store, journalPrefix).Records(t.Context())
			assert.Equal(t, c.kind, failure.KindOf(err))
		})
	}
}

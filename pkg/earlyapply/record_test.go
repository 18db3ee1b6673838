package earlyapply_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
)

// paper is PD as far as it keeps one document.
type paper struct {
	body     []byte
	revision int64
	between  func() // called once, between a read and the change that follows
}

func (p *paper) Note(context.Context, string) ([]byte, int64, error) { return p.body, p.revision, nil }

func (p *paper) PutNote(_ context.Context, name string, body []byte, revision int64) error {
	if other := p.between; other != nil {
		p.between = nil
		other()
	}
	if revision != p.revision {
		return failure.New(failure.Conflict, "write note", name, "changed")
	}
	p.body = body
	if p.revision++; body == nil {
		p.revision = 0
	}
	return nil
}

func record(t *testing.T, p *paper, stores []earlyapply.Store) map[cluster.StoreID]uint64 {
	t.Helper()
	list, err := earlyapply.ReadRecord(t.Context(), p, stores)
	require.NoError(t, err)
	limits := map[cluster.StoreID]uint64{}
	for _, r := range list {
		limits[r.Store] = r.Limit
	}
	return limits
}

func TestRecord_StoresThatWereRestartedOrAreGone_AreNotOfIt(t *testing.T) {
	t.Parallel()
	p, stores := &paper{}, three()
	require.NoError(t, earlyapply.Record(t.Context(), p, "r", stores, []earlyapply.Setting{{Store: 1, Limit: 1024}, {Store: 2, Limit: 512}, {Store: 3, Limit: 7}}))
	require.Equal(t, map[cluster.StoreID]uint64{1: 1024, 2: 512, 3: 7}, record(t, p, stores))
	stores[0].StartedAt = stores[0].StartedAt.Add(time.Second)
	require.Equal(t, map[cluster.StoreID]uint64{2: 512}, record(t, p, stores[:2]))
	require.NoError(t, earlyapply.Strike(t.Context(), p, stores[:2], []earlyapply.Setting{{Store: 2, Limit: 512}}))
	require.Nil(t, p.body, "the record goes with its last store")
	require.NoError(t, earlyapply.Strike(t.Context(), p, stores, []earlyapply.Setting{{Store: 2, Limit: 512}}))
	require.Nil(t, p.body, "and is not made to strike something off")
}

func TestRecord_StartMissingInPD_IsTakenForTheSame(t *testing.T) {
	t.Parallel()
	p, stores := &paper{}, three()
	stores[1].StartedAt = time.Time{}
	require.NoError(t, earlyapply.Record(t.Context(), p, "r", stores, []earlyapply.Setting{{Store: 1, Limit: 1024}, {Store: 2, Limit: 512}}))
	stores[0].StartedAt, stores[1].StartedAt = time.Time{}, stores[0].StartedAt
	require.Equal(t, map[cluster.StoreID]uint64{1: 1024, 2: 512}, record(t, p, stores))
}

// A store that is on again was put back or set by someone: what it was before is over.
func TestRecord_StoreThatIsOnAgain_HasItsLatestLimit(t *testing.T) {
	t.Parallel()
	p := &paper{}
	require.NoError(t, earlyapply.Record(t.Context(), p, "r", three(), []earlyapply.Setting{{Store: 1, Limit: 1024}}))
	require.NoError(t, earlyapply.Record(t.Context(), p, "s", three(), []earlyapply.Setting{{Store: 1, Limit: 64}}))
	require.Equal(t, map[cluster.StoreID]uint64{1: 64}, record(t, p, three()))
}

func TestRecord_ChangedInBetween_KeepsBothChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &paper{}
		p.between = func() {
			require.NoError(t, earlyapply.Record(t.Context(), p, "s", three(), []earlyapply.Setting{{Store: 2, Limit: 2}}))
		}
		require.NoError(t, earlyapply.Record(t.Context(), p, "r", three(), []earlyapply.Setting{{Store: 1, Limit: 1}}))
		require.Equal(t, map[cluster.StoreID]uint64{1: 1, 2: 2}, record(t, p, three()))
	})
}

// A document of another format, such as a newer version's, is neither understood nor overwritten.
func TestRecord_Unreadable_IsCorruptAndKept(t *testing.T) {
	t.Parallel()
	p := &paper{body: []byte("?"), revision: 3}
	_, err := earlyapply.ReadRecord(t.Context(), p, three())
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
	require.Equal(t, failure.Corrupt, failure.KindOf(earlyapply.Record(t.Context(), p, "r", three(), []earlyapply.Setting{{Store: 1, Limit: 1}})))
	require.NoError(t, earlyapply.Strike(t.Context(), p, three(), []earlyapply.Setting{{Store: 1, Limit: 1}}), "nothing of it is this run's")
	require.Equal(t, "?", string(p.body))
}

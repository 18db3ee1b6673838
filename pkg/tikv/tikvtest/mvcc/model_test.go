package mvcc_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// modelTxn is a transaction of the model: decided when its primary, keys[0], is.
type modelTxn struct {
	start, commit uint64
	keys          []string
	value         string // of all keys; "" deletes
	left          []string
	decided       bool
}

// model runs transactions step by step in any order and knows what each key has to be at each ts.
type model struct {
	*client
	rt   *rapid.T
	last uint64
	txns []*modelTxn
	past map[string]map[uint64]string // key, commit ts: value
}

func (m *model) now() uint64 { m.last++; return m.last << 18 }

func (m *model) want(key string, at uint64) string {
	var newest uint64
	val := ""
	for commit, v := range m.past[key] {
		if commit <= at && commit > newest {
			newest, val = commit, v
		}
	}
	return val
}

func (m *model) pick(open bool) *modelTxn {
	var some []*modelTxn
	for _, x := range m.txns {
		if x.decided != open && len(x.left) > 0 {
			some = append(some, x)
		}
	}
	if len(some) == 0 {
		m.rt.Skip("no such transaction")
	}
	return rapid.SampledFrom(some).Draw(m.rt, "txn")
}

func (m *model) start(rt *rapid.T) {
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 4, rapid.ID).Draw(rt, "keys")
	x := &modelTxn{start: m.now(), keys: keys, left: keys}
	if size := rapid.SampledFrom([]int{0, 3, 90}).Draw(rt, "size"); size > 0 {
		x.value = fmt.Sprintf("%0*d", size, m.last)
	}
	m.now() // room for others between start and prewrite
	var muts []*kvrpcpb.Mutation
	for _, k := range keys {
		if x.value == "" {
			muts = append(muts, del(k))
		} else {
			muts = append(muts, put(k, x.value))
		}
	}
	if len(m.prewrite(x.start, muts...)) == 0 {
		m.txns = append(m.txns, x)
	}
}

func (m *model) commitPrimary(*rapid.T) {
	x := m.pick(true)
	x.commit = m.now()
	require.Nil(m.rt, m.commit(x.start, x.commit, x.keys[0]))
	m.committed(x)
}

func (m *model) committed(x *modelTxn) {
	x.decided, x.left = true, x.left[1:]
	for _, k := range x.keys {
		m.past[k][x.commit] = x.value
	}
}

func (m *model) finishOne(*rapid.T) {
	x := m.pick(false)
	if x.commit > 0 {
		require.Nil(m.rt, m.commit(x.start, x.commit, x.left[0]))
	} else {
		require.Nil(m.rt, m.rollback(x.start, x.left[0]))
	}
	x.left = x.left[1:]
}

func (m *model) abort(*rapid.T) {
	x := m.pick(true)
	x.decided = true
}

func (m *model) abortPrimary(*rapid.T) {
	x := m.pick(true)
	x.decided = true
	require.Nil(m.rt, m.rollback(x.start, x.keys[0]))
}

// readAll reads every key at a ts of the past or now, and settles each lock that is in the way.
func (m *model) readAll(rt *rapid.T) {
	at := rapid.Uint64Range(1, m.last+1).Draw(rt, "at") << 18
	m.last++
	for key := range m.past {
		resp := m.get(key, at)
		for resp.Error != nil {
			m.settle(resp.Error.Locked)
			resp = m.get(key, at)
		}
		require.Equal(rt, m.want(key, at), string(resp.Value), "%s at %d", key, at)
	}
}

func (m *model) settle(l *kvrpcpb.LockInfo) {
	status := m.status(string(l.PrimaryLock), l.LockVersion, 0, math.MaxUint64)
	for _, x := range m.txns {
		if x.start == l.LockVersion {
			require.Equal(m.rt, x.commit, status.CommitVersion, "no transaction's fate changes")
			x.decided = true
		}
	}
	_, muts := mvcc.ResolveLock(m, &kvrpcpb.ResolveLockRequest{
		StartVersion: l.LockVersion, CommitVersion: status.CommitVersion,
	})
	m.apply(muts)
}

// scanMatchesGets holds a scan in either direction against single reads.
func (m *model) scanMatchesGets(rt *rapid.T) {
	at := rapid.Uint64Range(1, m.last).Draw(rt, "at") << 18
	limit := rapid.Uint32Range(1, 6).Draw(rt, "limit")
	reverse := rapid.Bool().Draw(rt, "reverse")
	var want []string
	keys := []string{"a", "b", "c", "d", "e"}
	if reverse {
		keys = []string{"e", "d", "c", "b", "a"}
	}
	for _, k := range keys {
		switch resp := m.get(k, at); {
		case len(want) == int(limit):
		case resp.Error != nil:
			want = append(want, k+"!")
		case !resp.NotFound:
			want = append(want, k+"="+string(resp.Value))
		}
	}
	require.Equal(rt, want, m.scan(&kvrpcpb.ScanRequest{Version: at, Limit: limit, Reverse: reverse}, mvcc.Range{}))
}

func TestModel_AnyInterleaving_KeepsSnapshotsAndFlashesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{client: &client{newStore(), rt}, rt: rt, past: map[string]map[uint64]string{}}
		for _, k := range []string{"a", "b", "c", "d", "e"} {
			m.past[k] = map[uint64]string{}
		}
		m.last = 1
		act := func(f func(*rapid.T)) func(*rapid.T) {
			return func(rt *rapid.T) { m.rt, m.t = rt, rt; f(rt) }
		}
		rt.Repeat(map[string]func(*rapid.T){
			"start": act(m.start), "commit": act(m.commitPrimary), "finish": act(m.finishOne), "abort": act(m.abort),
			"abort-primary": act(m.abortPrimary), "read": act(m.readAll), "scan": act(m.scanMatchesGets),
		})
		m.rt, m.t = rt, rt
		m.flashBackAndCheck(rt)
	})
}

func (m *model) flashBackAndCheck(rt *rapid.T) {
	// As a restore does: the version lies below every undecided lock.
	ceiling := m.last
	if least, ok := mvcc.MinLockTS(m, mvcc.Range{}, notFlushed); ok {
		ceiling = least>>18 - 1
	}
	version := rapid.Uint64Range(0, ceiling).Draw(rt, "version") << 18
	start, commit := m.now(), m.now()
	limit := rapid.IntRange(1, 4).Draw(rt, "limit")
	_, err := m.flashback(mvcc.Range{}, version, start, commit, limit)
	require.NoError(rt, err)
	require.Zero(rt, m.lockCount())
	for key := range m.past {
		require.Equal(rt, m.want(key, version), m.value(key, commit), key)
	}
	n, err := m.flashback(mvcc.Range{}, version, start, commit, limit)
	require.NoError(rt, err)
	require.Zero(rt, n)
}

package tikvtest

import (
	"context"
	"math"
	"sync"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// maxTS is TiKV's concurrency manager: the largest timestamp that the store has been read at, and the keys whose
// transaction is about to be given one above it. A reader first raises the timestamp and then looks for such keys, a writer
// first notes its keys and then reads the timestamp, so that one of them always sees the other. The zero value is ready.
type maxTS struct {
	mu      sync.Mutex
	ts      uint64
	writers map[*futureWrite]struct{}
	changed chan struct{} // closed when a write is over; nil if nothing waits
}

// futureWrite is one request from before its timestamp is made until it is applied or refused.
type futureWrite struct {
	startTS uint64
	keys    [][]byte // encoded
}

// raise notes a read. The largest timestamp of all stands for the newest version, and is no timestamp.
func (m *maxTS) raise(ts uint64) {
	if ts == math.MaxUint64 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ts = max(m.ts, ts)
}

func (m *maxTS) read() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ts
}

// begin notes a write until end is called.
func (m *maxTS) begin(startTS uint64, keys [][]byte) (end func()) {
	w := &futureWrite{startTS: startTS, keys: keys}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writers == nil {
		m.writers = map[*futureWrite]struct{}{}
	}
	m.writers[w] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.writers, w)
		if m.changed != nil {
			close(m.changed)
			m.changed = nil
		}
	}
}

// lowest is the smallest start ts of the writes that are not over, or fresh.
func (m *maxTS) lowest(fresh uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for w := range m.writers {
		fresh = min(fresh, w.startTS)
	}
	return fresh
}

// awaitWrites waits until no write of a key that the reader at ts reads is under way; TiKV answers KeyIsLocked, and the
// client tries again.
func (m *maxTS) awaitWrites(ctx context.Context, ts uint64, reads func(key []byte) bool) error {
	for {
		m.mu.Lock()
		busy := false
		for w := range m.writers {
			for _, k := range w.keys {
				busy = busy || w.startTS <= ts && reads(k)
			}
		}
		if !busy {
			m.mu.Unlock()
			return nil
		}
		if m.changed == nil {
			m.changed = make(chan struct{})
		}
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reading notes a read of the region and waits for the writes that it must not miss.
func (s *Store) reading(ctx context.Context, call kvCall, v peerView) error {
	s.maxTS.raise(call.readTS)
	wanted := map[string]bool{}
	for _, k := range call.keys {
		wanted[string(k)] = true
	}
	bounds := boundsOf(v.region)
	return s.maxTS.awaitWrites(ctx, call.readTS, func(key []byte) bool {
		if len(call.keys) > 0 {
			return wanted[string(key)]
		}
		return bounds.Contains(key)
	})
}

// futureOf notes the request's keys if it asks for a timestamp of the store's, and makes sure that the timestamp is above
// all that an earlier leader, or the leader of a region that was merged into this one, was read at.
func (s *Store) futureOf(ctx context.Context, p *peer, v peerView, req *kvrpcpb.PrewriteRequest) (end func(), e *errorpb.Error) {
	if !req.UseAsyncCommit && !req.TryOnePc {
		return func() {}, nil
	}
	led := leadership{v.term, v.region.RegionEpoch.Version}
	p.mu.Lock()
	synced := p.maxTSSynced == led
	p.mu.Unlock()
	if !synced {
		fresh, err := s.pd.FreshTS(ctx)
		if err != nil {
			return nil, &errorpb.Error{
				Message: "max timestamp is not synced: " + err.Error(), MaxTimestampNotSynced: &errorpb.MaxTimestampNotSynced{},
			}
		}
		s.maxTS.raise(fresh)
		p.mu.Lock()
		p.maxTSSynced = led
		p.mu.Unlock()
	}
	keys := make([][]byte, len(req.Mutations))
	for i, m := range req.Mutations {
		keys[i] = mvcc.EncodeKey(m.Key)
	}
	return s.maxTS.begin(req.StartVersion, keys), nil
}

// seenBy is what a transaction's commit ts has to be above once its state was asked for.
func seenBy(req *kvrpcpb.CheckTxnStatusRequest) uint64 {
	seen := req.LockTs
	for _, ts := range []uint64{req.CallerStartTs, req.CurrentTs} {
		if ts != math.MaxUint64 {
			seen = max(seen, ts)
		}
	}
	return seen
}

// leadership is one term of a leader over one range.
type leadership struct{ term, version uint64 }

package mvcc

import (
	"bytes"
	"math"
	"slices"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// snapshot reads at a timestamp under the rules of a request's context.
type snapshot struct {
	r       Reader
	ts      uint64
	ignored []uint64 // start ts of locks that the client knows to be of no account to this read
	access  []uint64 // start ts of locks that the client knows to be committed below ts
	dirty   bool     // read committed: locks do not block
}

func newSnapshot(r Reader, ts uint64, ctx *kvrpcpb.Context) snapshot {
	return snapshot{
		r: r, ts: ts, ignored: ctx.GetResolvedLocks(), access: ctx.GetCommittedLocks(),
		dirty: ctx.GetIsolationLevel() == kvrpcpb.IsolationLevel_RC,
	}
}

// sight is what a lock means for a read of its key.
type sight uint8

const (
	sightPast      sight = iota // read the versions at the snapshot's ts
	sightBlocked                // KeyIsLocked
	sightCommitted              // the lock's own value is what is visible
	sightBefore                 // read the versions below the lock
)

func (s snapshot) through(l *lock, user []byte) sight {
	switch {
	case l == nil || s.dirty || l.startTS > s.ts || !l.kind.changesData():
		return sightPast
	case slices.Contains(s.access, l.startTS):
		return sightCommitted
	case slices.Contains(s.ignored, l.startTS) || l.minCommitTS > s.ts:
		return sightPast
	case s.ts == math.MaxUint64 && bytes.Equal(l.primary, user) && !l.async:
		// A read of the newest version needs no ts; below the primary lock all is decided.
		return sightBefore
	}
	return sightBlocked
}

// read is a key's visible value.
type read struct {
	found    bool
	val      []byte
	commitTS uint64
}

func (s snapshot) get(user []byte) (read, *kvrpcpb.KeyError) {
	encoded := EncodeKey(user)
	l := loadLock(s.r, encoded)
	ts := s.ts
	switch s.through(l, user) {
	case sightBlocked:
		return read{}, lockedError(user, l)
	case sightCommitted:
		return s.lockValue(encoded, l), nil
	case sightBefore:
		ts = l.startTS - 1
	case sightPast:
	}
	w, commitTS := seekVersion(s.r, encoded, ts)
	if w == nil || w.kind != kindPut {
		return read{}, nil
	}
	return read{true, value(s.r, encoded, w.startTS, w.short), commitTS}, nil
}

func (s snapshot) lockValue(encoded []byte, l *lock) read {
	if l.kind != kindPut {
		return read{}
	}
	return read{found: true, val: value(s.r, encoded, l.startTS, l.short)}
}

// Get returns the value of a key at req.Version, NotFound, or the lock that is in the way.
func Get(r Reader, req *kvrpcpb.GetRequest) *kvrpcpb.GetResponse {
	got, keyErr := newSnapshot(r, req.Version, req.Context).get(req.Key)
	if keyErr != nil {
		return &kvrpcpb.GetResponse{Error: keyErr}
	}
	return &kvrpcpb.GetResponse{
		Value: got.val, NotFound: !got.found, CommitTs: commitTSIf(req.NeedCommitTs, got.commitTS),
	}
}

// BatchGet is Get of several keys: keys without value are left out, a locked key is a pair with an error.
func BatchGet(r Reader, req *kvrpcpb.BatchGetRequest) *kvrpcpb.BatchGetResponse {
	s := newSnapshot(r, req.Version, req.Context)
	resp := &kvrpcpb.BatchGetResponse{}
	for _, user := range req.Keys {
		got, keyErr := s.get(user)
		switch {
		case keyErr != nil:
			resp.Pairs = append(resp.Pairs, &kvrpcpb.KvPair{Error: keyErr, Key: user})
		case got.found:
			resp.Pairs = append(resp.Pairs, &kvrpcpb.KvPair{
				Key: user, Value: got.val, CommitTs: commitTSIf(req.NeedCommitTs, got.commitTS),
			})
		}
	}
	return resp
}

func commitTSIf(wanted bool, ts uint64) uint64 {
	if wanted {
		return ts
	}
	return 0
}

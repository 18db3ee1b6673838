package mvcc

import "github.com/pingcap/kvproto/pkg/kvrpcpb"

// Flush writes what a pipelined transaction has so far: locks that carry the number of the flush. A later flush replaces
// what an earlier one wrote to a key, and an earlier one that comes again changes nothing.
func Flush(r Reader, req *kvrpcpb.FlushRequest) (*kvrpcpb.FlushResponse, []Mutation) {
	prewrite, muts := prewriteAs(r, &kvrpcpb.PrewriteRequest{
		Mutations: req.Mutations, PrimaryLock: req.PrimaryKey, StartVersion: req.StartTs, LockTtl: req.LockTtl,
		MinCommitTs: req.MinCommitTs, AssertionLevel: req.AssertionLevel,
	}, 0, req.Generation)
	return &kvrpcpb.FlushResponse{Errors: prewrite.Errors}, muts
}

// BufferBatchGet reads what a pipelined transaction has flushed itself, and nothing else.
func BufferBatchGet(r Reader, req *kvrpcpb.BufferBatchGetRequest) *kvrpcpb.BufferBatchGetResponse {
	t, resp := txn{r: r, startTS: req.Version}, &kvrpcpb.BufferBatchGetResponse{}
	for _, user := range req.Keys {
		encoded := EncodeKey(user)
		l := t.ownLock(encoded)
		switch {
		case l == nil || l.generation == 0:
		case l.kind == kindPut:
			resp.Pairs = append(resp.Pairs, &kvrpcpb.KvPair{Key: user, Value: value(r, encoded, l.startTS, l.short)})
		case l.kind == kindDelete:
			resp.Pairs = append(resp.Pairs, &kvrpcpb.KvPair{Key: user})
		}
	}
	return resp
}

// replaced makes room for a later flush of the key, or reports that the lock is this flush's own or a later one's.
func (p *prewriter) replaced(encoded []byte, l *lock) bool {
	if l.generation == 0 || p.generation <= l.generation {
		return false
	}
	if l.longValue() {
		p.del(CFDefault, versioned(encoded, l.startTS))
	}
	return true
}

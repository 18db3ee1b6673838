package tikvtest

import (
	"sync"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// flushing is what the clients of pipelined transactions have sent of the commit ts that these will at least have: so far
// their locks let the resolved ts rise. The zero value is ready.
//
// TiKV takes no notice of the locks of one that is committed. Here they hold the resolved ts back until they are gone: a
// flashback would take them away with their rows.
type flushing struct {
	mu     sync.Mutex
	commit map[uint64]uint64 // by start ts
}

func (f *flushing) note(status *kvrpcpb.TxnStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.commit == nil {
		f.commit = map[uint64]uint64{}
	}
	switch {
	case status.IsCompleted || status.RolledBack:
		delete(f.commit, status.StartTs)
	case status.CommitTs == 0:
		f.commit[status.StartTs] = max(f.commit[status.StartTs], status.MinCommitTs)
	}
}

// lowest is the commit ts that the transaction will at least have, as far as is known.
func (f *flushing) lowest(startTS uint64) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(startTS, f.commit[startTS])
}

package tikvtest

import (
	"bytes"
	"sync"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// maxBatches is how many transactions are remembered: more than are under way at the same time.
const maxBatches = 256

// batches counts the prewrites that come to a region after another batch of the same transaction. The zero value is ready.
type batches struct {
	mu    sync.Mutex
	first map[batchOf][]byte // key of the first batch
	later int64
}

// batchOf is a transaction in a region.
type batchOf struct{ startTS, region uint64 }

func (b *batches) note(req *kvrpcpb.PrewriteRequest) {
	if len(req.Mutations) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first == nil || len(b.first) > maxBatches {
		b.first = map[batchOf][]byte{}
	}
	of, key := batchOf{req.StartVersion, req.GetContext().GetRegionId()}, req.Mutations[0].Key
	switch first, known := b.first[of]; {
	case !known:
		b.first[of] = key
	case !bytes.Equal(first, key):
		b.later++
	}
}

// Batches counts the prewrites that came to a region after another batch of the same transaction.
func (s *Store) Batches() int64 {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	return s.batches.later
}

package volume

import (
	"cmp"
	"context"
	"iter"
)

// listed are the blocks that may have to be read, in ascending order: those of the source and, from all that the volume
// has, those that a differential base left out.
func (w *segmentWork) listed(ctx context.Context) iter.Seq2[Block, error] {
	from, to := w.first, w.first+int64(len(w.places))
	blocks := w.Source.Blocks(ctx, from, to)
	if len(w.leftOut) == 0 {
		return blocks
	}
	return merged(blocks, only(w.Whole.Blocks(ctx, from, to), w.leftOut))
}

// only are the blocks of a list that are in a set.
func only(list iter.Seq2[Block, error], set map[int64]bool) iter.Seq2[Block, error] {
	return func(yield func(Block, error) bool) {
		for b, err := range list {
			if err != nil {
				yield(nil, err)
				return
			}
			if set[b.Index()] && !yield(b, nil) {
				return
			}
		}
	}
}

// merged are the blocks of two ascending lists; of one that is in both, the first list's.
func merged(first, second iter.Seq2[Block, error]) iter.Seq2[Block, error] {
	return func(yield func(Block, error) bool) {
		next, stop := iter.Pull2(second)
		defer stop()
		other, err, more := next()
		for b, failed := range first {
			for more && err == nil && failed == nil && other.Index() < b.Index() {
				if !yield(other, nil) {
					return
				}
				other, err, more = next()
			}
			if failed != nil || err != nil {
				yield(nil, cmp.Or(failed, err))
				return
			}
			if more && other.Index() == b.Index() {
				other, err, more = next()
			}
			if !yield(b, nil) {
				return
			}
		}
		for more {
			if !yield(other, err) || err != nil {
				return
			}
			other, err, more = next()
		}
	}
}

package ebsdirect

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
)

// SumOf is the sum of a block.
func SumOf(block []byte) Sum { return sha256.Sum256(block) }

// Linear is EBS's linear checksum of the blocks that were put: the SHA-256 of their sums in the order of their indexes.
// It needs no data. The zero value has none.
type Linear struct {
	hash   hash.Hash
	last   int64
	blocks int64
}

// Add adds a block. Its index must be larger than that of the block before.
func (l *Linear) Add(index int64, sum Sum) error {
	switch {
	case l.hash == nil:
		l.hash = sha256.New()
	case index <= l.last:
		return fmt.Errorf("block %d was added after block %d", index, l.last)
	}
	l.last = index
	l.blocks++
	_, _ = l.hash.Write(sum[:]) // a hash never fails
	return nil
}

// Blocks is the number of blocks that were added.
func (l *Linear) Blocks() int64 { return l.blocks }

// Sum is the checksum of all that were added.
func (l *Linear) Sum() Sum {
	if l.hash == nil {
		return SumOf(nil)
	}
	return Sum(l.hash.Sum(nil))
}

// Token is the client token of a run's snapshot of one volume: a further process of the run gets the same snapshot.
func Token(run, volume string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", run, volume))
	return hex.EncodeToString(sum[:])
}

// encoded is the sum as the API writes it.
func (s Sum) encoded() string { return base64.StdEncoding.EncodeToString(s[:]) }
